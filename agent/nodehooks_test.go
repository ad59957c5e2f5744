package agent

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	nri "github.com/containerd/nri/pkg/api"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mooring-vm/mooring/agent/nodehook"
	"github.com/mooring-vm/mooring/agent/nodehook/v1alpha1"
)

const mi = 1 << 20

// TestAgentServesNodeHooks calls the agent as virt-handler does, after another program has lowered
// the limit of a process in the launcher. The guard alone would leave that limit.
func TestAgentServesNodeHooks(t *testing.T) {
	config := testConfig(t)
	text := strings.Replace(testPolicy, "memlock:\n", "memlock:\n  repair: prlimit\n", 1)
	if err := os.WriteFile(config.Policy, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	api := startAPIServer(t, corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "uid-vm-1",
		Namespace: "vms", Name: "vm-1", OwnerReferences: []metav1.OwnerReference{{
			APIVersion: "kubevirt.io/v1", Kind: "VirtualMachineInstance", Name: "vm", UID: "vmi",
			Controller: new(true)}}}})
	close(api.listed)
	config.Kubeconfig, config.NodeName = api.kubeconfig(t), "node-1"
	config.NodeHookSocket = filepath.Join(filepath.Dir(config.Policy), "plugins", "mooring.sock")
	runtime := startRuntime(t, config.NRISocket)
	a := start(t, config)
	a.waitReady(t)
	runtime.BlockPluginSync().Unblock()

	pod := testPod("vms", "vm-1", map[string]string{
		"requires-lock.memlock.mooring.dev": "true",
		"guest-memory.memlock.mooring.dev":  "3Mi",
		"overhead.memlock.mooring.dev":      "1Mi",
	})
	ctr := testContainer(pod)
	if _, err := create(runtime, pod, ctr); err != nil {
		t.Fatal(err)
	}
	cgroup := makeCgroup(t, config.Cgroup, ctr.GetId())
	monitor, _ := runIn(t, cgroup, "sleep", "1000")
	virtqemud, _ := runIn(t, cgroup, "sleep", "1000")
	lower := unix.Rlimit{Cur: 2 * mi, Max: 4 * mi}
	if err := unix.Prlimit(virtqemud.Process.Pid, unix.RLIMIT_MEMLOCK, &lower, nil); err != nil {
		t.Fatal(err)
	}
	ctr.Pid, ctr.State = uint32(monitor.Process.Pid), nri.ContainerState_CONTAINER_RUNNING
	if err := runtime.PostStartContainer(context.Background(),
		&nri.PostStartContainerRequest{Pod: pod, Container: ctr}); err != nil {
		t.Fatal(err)
	}

	conn, err := grpc.NewClient("unix:"+config.NodeHookSocket,
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	const vmi = `{"metadata": {"namespace": "vms", "name": "vm", "uid": "vmi"}}`
	call := func(hook string) error {
		_, err := v1alpha1.NewNodeHookServiceClient(conn).ExecuteNodeHook(t.Context(),
			&v1alpha1.ExecuteNodeHookRequest{HookPoint: hook, Vmi: []byte(vmi),
				NodeContext: &v1alpha1.NodeContext{NodeName: "node-1"}})
		return err
	}
	if err := call(nodehook.PreVMStart); err != nil {
		t.Fatal(err)
	}
	var now unix.Rlimit
	if err := unix.Prlimit(virtqemud.Process.Pid, unix.RLIMIT_MEMLOCK, nil, &now); err != nil ||
		now.Cur != 4*mi {
		t.Errorf("limit %+v, %v, want 4Mi", now, err)
	}
	if err := call("PreVMStop"); status.Code(err) != codes.InvalidArgument {
		t.Errorf("error %v, want %s", err, codes.InvalidArgument)
	}
	_, body := a.get(t, "/metrics")
	for _, want := range []string{
		`mooring_node_hooks_total{hook="PreVMStart",status="ok"} 1`,
		`mooring_node_hooks_total{hook="PostMigrationTarget",status="ok"} 0`,
		`mooring_node_hooks_total{hook="other",status="error"} 1`,
	} {
		if !strings.Contains(body, want) {
			t.Errorf("/metrics lacks %s", want)
		}
	}
	if err := a.stop(); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(config.NodeHookSocket); err == nil {
		t.Error("the socket is still there")
	}
}
