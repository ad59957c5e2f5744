package nodehook_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/mooring-vm/mooring/agent/admin"
	"github.com/mooring-vm/mooring/agent/nodehook"
	"github.com/mooring-vm/mooring/agent/nodehook/v1alpha1"
	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/api/policy"
	"github.com/mooring-vm/mooring/lifecycle/guard"
	"github.com/mooring-vm/mooring/lifecycle/host"
	"github.com/mooring-vm/mooring/lifecycle/lifecycletest"
	"github.com/mooring-vm/mooring/lifecycle/registry"
)

const gi = 1 << 30

func same(l host.Limit) host.Rlimit { return host.Rlimit{Soft: l, Hard: l} }

// node is a server on a real socket, with a real guard and a fake kernel.
type node struct {
	kernel    *lifecycletest.Kernel
	registry  *registry.Registry
	client    v1alpha1.NodeHookServiceClient
	virtqemud map[string]host.Process // by pod

	mu     sync.Mutex
	served []string
	ready  bool
}

func startNode(t *testing.T) *node {
	t.Helper()
	n := &node{kernel: lifecycletest.NewKernel(), registry: registry.New(),
		virtqemud: map[string]host.Process{}, ready: true}
	log := slog.New(slog.DiscardHandler)
	g := guard.New(guard.Config{Registry: n.registry, Kernel: n.kernel, Logger: log,
		Recorder: &lifecycletest.Recorder{}, Repair: func() bool { return true }})
	server := nodehook.New(nodehook.Config{
		Node: "node-1", Ready: n.isReady, Launchers: n.registry.List, Instance: instanceOf,
		Require: g.Require, Served: n.count, Logger: log,
	})
	socket := filepath.Join(t.TempDir(), "mooring.sock")
	l, err := admin.Listen(t.Context(), socket)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var group sync.WaitGroup
	group.Go(func() { g.Run(ctx) })
	group.Go(func() {
		if err := server.Serve(ctx, l); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(group.Wait)
	t.Cleanup(cancel)
	conn, err := grpc.NewClient("unix:"+socket, grpc.WithAuthority("localhost"),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	n.client = v1alpha1.NewNodeHookServiceClient(conn)
	return n
}

func (n *node) isReady() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.ready
}

func (n *node) count(hook string, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.served = append(n.served, hook+" "+status.Code(err).String())
}

// instanceOf is the pod cache: a pod's UID is that of its instance, and a suffix.
func instanceOf(podUID string) (corev1.ObjectReference, bool) {
	uid, _, ok := strings.Cut(podUID, "/")
	return corev1.ObjectReference{Namespace: "vms", Name: "vm", UID: types.UID(uid)}, ok
}

// launch starts a launcher with a granted limit of 5Gi. virt-handler has lowered its virtqemud.
func (n *node) launch(pod string, change func(*registry.Launcher)) {
	limit := host.Limit(5 * gi)
	pid := 100 * (1 + len(n.virtqemud))
	l := registry.Launcher{Demand: &limit, Given: registry.Given{Memlock: &limit},
		Launcher: agentapi.Launcher{
			Pod:       agentapi.PodRef{Namespace: "vms", Name: pod, UID: "vmi/" + pod},
			Container: agentapi.ContainerRef{Name: "compute", ID: "id-" + pod, PID: pid},
			State:     agentapi.StateRunning, Mode: string(policy.Enforce),
			Settings: []agentapi.Setting{{Name: agentapi.MemlockSetting,
				Status: agentapi.StatusPending}},
		}}
	if change != nil {
		change(&l)
	}
	n.registry.Put(l)
	cgroup := "/pod/id-" + pod
	n.kernel.Start(pid, cgroup, same(5*gi))
	n.virtqemud[pod] = n.kernel.Start(pid+1, cgroup, same(2*gi))
}

// expectRaised checks the limits of virtqemud: 5Gi in these pods, unchanged in the others.
func (n *node) expectRaised(t *testing.T, pods ...string) {
	t.Helper()
	for pod, p := range n.virtqemud {
		want := same(2 * gi)
		if slices.Contains(pods, pod) {
			want = same(5 * gi)
		}
		if got, err := n.kernel.Memlock(p); got != want || err != nil {
			t.Errorf("pod %s: virtqemud may lock %v, %v, want %v", pod, got, err, want)
		}
	}
}

// request is virt-handler's call for an instance.
func request(
	t *testing.T, hook string, change func(*kubevirtv1.VirtualMachineInstance),
) *v1alpha1.ExecuteNodeHookRequest {
	t.Helper()
	vmi := &kubevirtv1.VirtualMachineInstance{ObjectMeta: metav1.ObjectMeta{Namespace: "vms",
		Name: "vm", UID: "vmi"}}
	if change != nil {
		change(vmi)
	}
	text, err := json.Marshal(vmi)
	if err != nil {
		t.Fatal(err)
	}
	return &v1alpha1.ExecuteNodeHookRequest{HookPoint: hook, Vmi: text,
		NodeContext: &v1alpha1.NodeContext{NodeName: "node-1"}}
}

// expectError calls the server and wants an error with this code and text.
func (n *node) expectError(
	t *testing.T, r *v1alpha1.ExecuteNodeHookRequest, code codes.Code, texts ...string,
) {
	t.Helper()
	_, err := n.client.ExecuteNodeHook(t.Context(), r)
	for _, text := range append(texts, "") {
		if status.Code(err) != code || !strings.Contains(status.Convert(err).Message(), text) {
			t.Errorf("error %v, want code %s and %q", err, code, text)
		}
	}
}

// Both hook points repair the launcher, as often as virt-handler calls them.
func TestHooksRepair(t *testing.T) {
	for _, hook := range []string{nodehook.PreVMStart, nodehook.PostMigrationTarget} {
		n := startNode(t)
		n.launch("launcher", nil)
		for range 3 {
			if _, err := n.client.ExecuteNodeHook(t.Context(), request(t, hook, nil)); err != nil {
				t.Fatal(err)
			}
			n.expectRaised(t, "launcher")
			if err := n.kernel.SetMemlock(n.virtqemud["launcher"], same(2*gi)); err != nil {
				t.Fatal(err)
			}
		}
		if want := slices.Repeat([]string{hook + " OK"}, 3); !slices.Equal(n.served, want) {
			t.Errorf("served %v, want %v", n.served, want)
		}
	}
}

func TestBadRequests(t *testing.T) {
	n := startNode(t)
	n.launch("launcher", nil)
	for name, c := range map[string]struct {
		change func(*v1alpha1.ExecuteNodeHookRequest)
		want   string
	}{
		"hook point": {func(r *v1alpha1.ExecuteNodeHookRequest) { r.HookPoint = "PreVMStop" },
			`hookPoint "PreVMStop": want PreVMStart or PostMigrationTarget`},
		"other node": {func(r *v1alpha1.ExecuteNodeHookRequest) {
			r.NodeContext.NodeName = "node-2"
		}, `node_context.node_name "node-2": want "node-1"`},
		"no node": {func(r *v1alpha1.ExecuteNodeHookRequest) { r.NodeContext = nil },
			`node_context.node_name "": want "node-1"`},
		"no JSON": {func(r *v1alpha1.ExecuteNodeHookRequest) { r.Vmi = []byte("vmi") },
			"vmi: want a VirtualMachineInstance in JSON"},
		"no UID": {func(r *v1alpha1.ExecuteNodeHookRequest) {
			r.Vmi = []byte(`{"metadata": {"namespace": "vms", "name": "vm"}}`)
		}, "vmi.metadata.uid: empty"},
		"no name": {func(r *v1alpha1.ExecuteNodeHookRequest) {
			r.Vmi = []byte(`{"metadata": {"namespace": "vms", "uid": "vmi"}}`)
		}, "vmi.metadata.name: empty"},
		"no namespace": {func(r *v1alpha1.ExecuteNodeHookRequest) { r.Vmi = []byte(`{}`) },
			"vmi.metadata.namespace: empty"},
	} {
		t.Run(name, func(t *testing.T) {
			r := request(t, nodehook.PreVMStart, nil)
			c.change(r)
			n.expectError(t, r, codes.InvalidArgument, c.want)
		})
	}
	n.expectRaised(t)
}

func TestLauncherAbsent(t *testing.T) {
	n := startNode(t)
	n.launch("other", func(l *registry.Launcher) { l.Pod.UID = "another/pod" })
	n.launch("plain", func(l *registry.Launcher) { l.Pod.UID = "no instance" })
	n.launch("ended", func(l *registry.Launcher) { l.State = agentapi.StateStopped })
	n.expectError(t, request(t, nodehook.PreVMStart, nil), codes.NotFound,
		"vms/vm (UID vmi) has no running launcher on node node-1")
	// A VM of the same name that was created anew.
	n.launch("former", nil)
	n.expectError(t, request(t, nodehook.PreVMStart, func(v *kubevirtv1.VirtualMachineInstance) {
		v.UID = "newer"
	}), codes.NotFound, "vms/vm (UID newer)")
	n.expectRaised(t)
}

// The launcher of an earlier migration may still run on the node of the next one.
func TestTwoLaunchers(t *testing.T) {
	n := startNode(t)
	n.launch("first", nil)
	n.launch("second", nil)
	n.expectError(t, request(t, nodehook.PreVMStart, nil), codes.FailedPrecondition,
		"2 running launchers on node node-1", "pod first (UID vmi/first)", "pod second")
	n.expectRaised(t)

	target := func(pod string) func(*kubevirtv1.VirtualMachineInstance) {
		return func(v *kubevirtv1.VirtualMachineInstance) {
			v.Status.MigrationState = &kubevirtv1.VirtualMachineInstanceMigrationState{
				TargetPod: pod}
		}
	}
	n.expectError(t, request(t, nodehook.PostMigrationTarget, target("third")), codes.NotFound,
		"no active launcher", "migrationState.targetPod")
	n.expectRaised(t)
	if _, err := n.client.ExecuteNodeHook(t.Context(),
		request(t, nodehook.PostMigrationTarget, target("second"))); err != nil {
		t.Error(err)
	}
	n.expectRaised(t, "second")

	active := func(pods map[types.UID]string) func(*kubevirtv1.VirtualMachineInstance) {
		return func(v *kubevirtv1.VirtualMachineInstance) { v.Status.ActivePods = pods }
	}
	n.expectError(t, request(t, nodehook.PreVMStart,
		active(map[types.UID]string{"vmi/first": "node-2"})), codes.NotFound, "activePods")
	if _, err := n.client.ExecuteNodeHook(t.Context(), request(t, nodehook.PreVMStart,
		active(map[types.UID]string{"vmi/first": "node-1", "vmi/second": "node-2"}))); err != nil {
		t.Error(err)
	}
	n.expectRaised(t, "first", "second")
}

// The policy's decision is the hook's, too.
func TestDecisions(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*registry.Launcher)
		code   codes.Code
		want   string
	}{
		"undecided": {func(l *registry.Launcher) { l.Undecided = true }, codes.Unavailable,
			"service account"},
		"refused": {func(l *registry.Launcher) {
			l.Refusal, l.Given = "8Gi is more than 4Gi", registry.Given{}
		}, codes.FailedPrecondition, "refuses the launcher in pod launcher: 8Gi is more than 4Gi"},
		"observed": {func(l *registry.Launcher) {
			l.Refusal, l.Given, l.Mode = "8Gi is more than 4Gi", registry.Given{},
				string(policy.Observe)
		}, codes.OK, ""},
	} {
		t.Run(name, func(t *testing.T) {
			n := startNode(t)
			n.launch("launcher", c.change)
			n.expectError(t, request(t, nodehook.PreVMStart, nil), c.code, c.want)
			n.expectRaised(t)
		})
	}
}

// After its start the agent first learns the launchers and pods of its node.
func TestNotReady(t *testing.T) {
	n := startNode(t)
	n.launch("launcher", nil)
	n.ready = false
	n.expectError(t, request(t, nodehook.PreVMStart, nil), codes.Unavailable,
		"does not know the launchers and pods")
}

// A slow guard does not hold virt-handler beyond the hook's time-out.
func TestSlowGuard(t *testing.T) {
	n := startNode(t)
	n.launch("launcher", nil)
	release := make(chan struct{})
	n.kernel.BeforeSet = func(host.Process) error {
		<-release
		return nil
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err := n.client.ExecuteNodeHook(ctx, request(t, nodehook.PreVMStart, nil))
	if status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("error %v, want %s", err, codes.DeadlineExceeded)
	}
	close(release)
	if _, err := n.client.ExecuteNodeHook(t.Context(),
		request(t, nodehook.PreVMStart, nil)); err != nil {
		t.Error(err)
	}
	n.expectRaised(t, "launcher")
}
