package kubetest

import (
	"bytes"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/google/go-cmp/cmp"

	agentkube "github.com/mooring-vm/mooring/agent/kube"
	"github.com/mooring-vm/mooring/agent/podserver"
	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/api/podapi"
	"github.com/mooring-vm/mooring/api/policy"
	"github.com/mooring-vm/mooring/cli"
	"github.com/mooring-vm/mooring/hack/kube"
	"github.com/mooring-vm/mooring/lifecycle/lifecycletest"
	"github.com/mooring-vm/mooring/lifecycle/registry"
)

// The rights for `mooring resize`, one rule each.
var (
	mayPatch = rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"pods"},
		Verbs: []string{"patch"}}
	mayGet = rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"pods"},
		Verbs: []string{"get"}}
	mayList = rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"events"},
		Verbs: []string{"list"}}
	mayWatch = rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"events"},
		Verbs: []string{"watch"}}
)

// output is a command's output. It is safe to read while the command runs.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// resizer runs `mooring resize` with limited rights on a machine without an agent.
type resizer struct {
	kubeconfig string
	noSocket   string
}

// newResizer returns a resizer for a service account of the namespace with these rights.
func newResizer(
	t *testing.T, plane *kube.ControlPlane, namespace, account string, rules ...rbacv1.PolicyRule,
) *resizer {
	t.Helper()
	admin, meta := clientFor(t, plane.Config()), metav1.ObjectMeta{Name: account}
	_, err := admin.RbacV1().Roles(namespace).Create(t.Context(),
		&rbacv1.Role{ObjectMeta: meta, Rules: rules}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = admin.RbacV1().RoleBindings(namespace).Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role",
			Name: account},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: account,
			Namespace: namespace}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	r := &resizer{noSocket: filepath.Join(t.TempDir(), "agent.sock")}
	if r.kubeconfig, err = plane.Kubeconfig(t.Context(), namespace, account); err != nil {
		t.Fatal(err)
	}
	return r
}

// run returns the exit code.
func (r *resizer) run(t *testing.T, out, errOut *output, args ...string) int {
	t.Helper()
	program := cli.Program{Name: "mooring", Out: out, ErrOut: errOut, Now: time.Now}
	return program.Run(t.Context(),
		append([]string{"resize", "--kubeconfig", r.kubeconfig, "--socket", r.noSocket}, args...))
}

// eventually repeats the command until its output contains want. The authorizer applies roles with
// a delay.
func (r *resizer) eventually(t *testing.T, code int, want string, args ...string) {
	t.Helper()
	var out, errOut output
	eventually(t, want, func() bool {
		out, errOut = output{}, output{}
		got := r.run(t, &out, &errOut, args...)
		return got == code && strings.Contains(out.String()+errOut.String(), want)
	})
}

// vm makes the pod of a VM.
func vm(t *testing.T, client kubernetes.Interface, namespace string) *corev1.Pod {
	t.Helper()
	p := pod("vm-1", node, "")
	p.Labels = map[string]string{"app": "vm"}
	p.Annotations = map[string]string{"launcher.mooring.dev": "compute",
		"cpu-quota.resize.mooring.dev": "150%", "example.org/owner": "me"}
	created, err := client.CoreV1().Pods(namespace).Create(t.Context(), p, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return created
}

func get(t *testing.T, client kubernetes.Interface, p *corev1.Pod) *corev1.Pod {
	t.Helper()
	now, err := client.CoreV1().Pods(p.Namespace).Get(t.Context(), p.Name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return now
}

// TestResizePatchesTheAnnotations expects the patch right to suffice. The rest of the pod stays
// unchanged, and the agent's cache receives the size.
func TestResizePatchesTheAnnotations(t *testing.T) {
	plane := Start(t)
	admin := clientFor(t, plane.Config())
	namespace := Namespace(t, admin, "patcher")
	r := newResizer(t, plane, namespace, "patcher", mayPatch)
	before := vm(t, admin, namespace)
	pods := launcherPods(t, agentClients(t, agentConfig(t, plane)))

	r.eventually(t, cli.ExitOK, namespace+"/vm-1: could be annotated with 4 vCPUs, 4Gi of memory\n",
		"vm-1", "--vcpus", "4", "--memory", "4096Mi", "--dry-run")
	if diff := cmp.Diff(before, get(t, admin, before)); diff != "" {
		t.Fatalf("a dry run changes the pod (-want +got):\n%s", diff)
	}
	r.eventually(t, cli.ExitOK, namespace+"/vm-1: annotated with 4 vCPUs, 4Gi of memory\n", "vm-1",
		"--vcpus", "4", "--memory", "4096Mi")

	after := get(t, admin, before)
	want := before.DeepCopy()
	want.Annotations["vcpus.resize.mooring.dev"], want.Annotations["memory.resize.mooring.dev"] = "4",
		"4Gi"
	managers := after.ManagedFields
	want.ResourceVersion, want.ManagedFields = after.ResourceVersion, after.ManagedFields
	if diff := cmp.Diff(want, after); diff != "" {
		t.Errorf("the pod (-want +got):\n%s", diff)
	}
	if last := managers[len(managers)-1]; last.Manager != "mooring" {
		t.Errorf("the annotations are %q's", last.Manager)
	}
	eventually(t, "the size in the agent's cache", func() bool {
		desired, known := pods.Desired(string(before.UID), "compute")
		return known && desired.Size == api.Size{VCPUs: 4, Memory: 4 << 30,
			CPUQuota: api.CPUQuota{Percent: 150}}
	})
}

// launcherPods returns the agent's pod cache with the VMs' desired sizes.
func launcherPods(t *testing.T, clients agentkube.Clients) *agentkube.PodCache {
	t.Helper()
	c, err := agentkube.NewPodCache(agentkube.PodsOfNode(clients.Core, node), node,
		slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	c.TrackLaunchers(func(_, annotations map[string]string) (string, bool) {
		name, ok := annotations["launcher.mooring.dev"]
		return name, ok
	})
	done := make(chan struct{})
	go func() { defer close(done); c.Run(t.Context()) }()
	t.Cleanup(func() { <-done }) // the test's context has ended by then
	return c
}

// TestResizeNamesTheRightThatIsMissing expects errors with the pod and the missing right, and an
// error for a missing pod.
func TestResizeNamesTheRightThatIsMissing(t *testing.T) {
	plane := Start(t)
	admin := clientFor(t, plane.Config())
	accounts := []string{"nothing", "patch", "get", "list"}
	namespace := Namespace(t, admin, accounts...)
	vm(t, admin, namespace)
	rules := []rbacv1.PolicyRule{mayPatch, mayGet, mayList}
	for i, want := range []string{
		`cannot patch resource "pods" in API group "" in the namespace "` + namespace +
			`": requires a role with the verb "patch" for pods`,
		`cannot get resource "pods" in API group "" in the namespace "` + namespace +
			`": requires a role with the verb "get" for pods`,
		`cannot list resource "events" in API group "" in the namespace "` + namespace +
			`": requires a role with the verb "list" for events`,
		`requires a role with the verb "watch" for events`,
	} {
		r := newResizer(t, plane, namespace, accounts[i], rules[:i]...)
		args := []string{namespace + "/vm-1", "--vcpus", "2"}
		if i > 0 {
			args = append(args, "--wait")
		}
		r.eventually(t, cli.ExitPermission, want, args...)
	}
	r := newResizer(t, plane, namespace, "default", mayPatch, mayGet)
	for _, more := range [][]string{nil, {"--wait"}, {"--dry-run"}} {
		r.eventually(t, cli.ExitNotFound, "resize of pod "+namespace+`/none: pods "none" not found`,
			append(more, "none", "--vcpus", "2")...)
	}
}

// reporter returns the agent's pod server, which turns the pod's reports into Events.
func reporter(t *testing.T, p *corev1.Pod, r *recording) podserver.Pod {
	t.Helper()
	launchers := registry.New()
	launchers.Put(registry.Launcher{Launcher: agentapi.Launcher{
		Pod:       agentapi.PodRef{Namespace: p.Namespace, Name: p.Name, UID: string(p.UID)},
		Container: agentapi.ContainerRef{Name: "compute", ID: "1"}, State: agentapi.StateRunning,
	}})
	n := &podserver.Node{
		Registry: launchers, Recorder: r.Recorder, Logger: slog.New(slog.DiscardHandler),
		Policy: policy.NewCurrent(&policy.Policy{}), Ready: func() bool { return true },
		Clock: lifecycletest.NewClock(),
	}
	return n.Pod(string(p.UID))
}

// report returns a report with one planned step per generation, one of them done.
func report(generation uint64, state podapi.State, vcpus int) podapi.Report {
	r := podapi.Report{Generation: generation, State: state,
		Actual: &podapi.Actual{Memory: 4 << 30, VCPUs: vcpus, Online: vcpus}}
	for i := range generation {
		r.Plan = append(r.Plan, fmt.Sprintf("step %d", i+1))
	}
	if state != podapi.StateResizing {
		r.Steps = []podapi.Step{{Description: "step 1", Started: time.Unix(int64(generation), 0),
			Seconds: 1.5}}
	}
	if state == podapi.StateRefused {
		r.Error = "no room"
	}
	return r
}

// TestResizeWaitsForEvents runs without a local agent and follows the pod's Events. Older Events
// and Events about another size must not count as the result.
func TestResizeWaitsForEvents(t *testing.T) {
	plane := Start(t)
	admin := clientFor(t, plane.Config())
	namespace := Namespace(t, admin, "waiter")
	r := newResizer(t, plane, namespace, "waiter", mayPatch, mayGet, mayList, mayWatch)
	p := vm(t, admin, namespace)
	recorder := startRecorder(t, agentClients(t, agentConfig(t, plane)), node)
	agent := reporter(t, p, recorder)
	// each generation gives another text, because equal reports are recorded once a minute
	report := func(generation uint64, state podapi.State, vcpus int) {
		t.Helper()
		if err := agent.Report(report(generation, state, vcpus)); err != nil {
			t.Fatal(err)
		}
	}
	report(2, podapi.StateDone, 1)
	recorder.await(t, agentkube.Written, 1)
	// the authorizer knows the role
	r.eventually(t, cli.ExitOK, "could be annotated", "vm-1", "--vcpus", "2", "--dry-run")

	for _, c := range []struct {
		generation uint64
		size       []string
		state      podapi.State
		code       int
		out, err   string // expected end of the output
	}{
		{4, []string{"--vcpus", "2", "--memory", "4Gi"}, podapi.StateDone, cli.ExitOK,
			"    1.50s  step 1\ndone: 4Gi of memory, 2 vCPUs\n", "all steps at the end\n"},
		{7, []string{"--vcpus", "3"}, podapi.StateRefused, cli.ExitFailure, "    1.50s  step 1\n",
			"could not resize its VM (Refused): no room\n"},
	} {
		var out, errOut output
		code := make(chan int, 1)
		go func() { code <- r.run(t, &out, &errOut, append(c.size, "vm-1", "--wait")...) }()
		eventually(t, "the watch", func() bool {
			return strings.Contains(errOut.String(), "the pod runs on another node")
		})
		report(c.generation-1, podapi.StateResizing, 1)
		if c.state == podapi.StateDone {
			report(c.generation, podapi.StateDone, 8) // about the previous desired size
			eventually(t, "the report about another size",
				func() bool { return strings.Contains(out.String(), "4Gi, 8 vCPUs\n") })
		}
		report(c.generation+1, c.state, 2)
		const plan = "\nplan  1  step 1\nplan  2  step 2\nplan  3  step 3\n"
		if got := <-code; got != c.code || !strings.HasSuffix(out.String(), c.out) ||
			!strings.HasSuffix(errOut.String(), c.err) || !strings.Contains(out.String(), plan) {
			t.Errorf("%v: exit code %d\n%s%s", c.size, got, out.String(), errOut.String())
		}
	}
	var out, errOut output // the previous request was refused, and the command repeats the refusal
	if code := r.run(t, &out, &errOut, "vm-1", "--vcpus", "3", "--wait"); code != cli.ExitFailure ||
		!strings.Contains(errOut.String(), "the pod already had these annotations") {
		t.Errorf("repeated: exit code %d\n%s%s", code, out.String(), errOut.String())
	}
	out, errOut = output{}, output{}
	if code := r.run(t, &out, &errOut, "vm-1", "--vcpus", "1", "--wait", "--timeout", "1s"); code !=
		cli.ExitFailure || !strings.Contains(errOut.String(), "waited for 1s without an Event") {
		t.Errorf("silent pod: exit code %d\n%s%s", code, out.String(), errOut.String())
	}
}
