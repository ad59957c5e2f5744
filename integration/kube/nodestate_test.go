package kubetest

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	agentkube "github.com/mooring-vm/mooring/agent/kube"
	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/api/podapi"
	"github.com/mooring-vm/mooring/api/v1alpha1"
	"github.com/mooring-vm/mooring/hack/kube"
	"github.com/mooring-vm/mooring/internal/kubeclient"
)

// nodeAgent is the part of an agent that writes its node's state, with the rights of install.yaml
// and a token that is bound to the node.
type nodeAgent struct {
	node   *corev1.Node
	states rest.Interface
	log    output

	mu    sync.Mutex
	state agentkube.State
}

// startNodeAgent starts the writer of a new node with this state.
func startNodeAgent(t *testing.T, plane *kube.ControlPlane, name string,
	state agentkube.State) *nodeAgent {
	t.Helper()
	a := &nodeAgent{state: state, node: newNode(t, plane, name)}
	config := nodeConfig(t, plane, a.node)
	a.states = statesClient(t, config)
	writer, err := agentkube.NewStateWriter(agentkube.StateWriterConfig{
		Clients: agentClients(t, config), Node: name, State: a.current,
		Logger: slog.New(slog.NewTextHandler(&a.log, nil)), Period: 50 * time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	t.Cleanup(func() { deleteState(t, plane, name) })
	go func() { defer close(done); writer.Run(t.Context()) }()
	t.Cleanup(func() { <-done }) // the test's context has ended by then
	return a
}

// deleteState deletes the state of a node at the end of a test. The next test has other nodes.
func deleteState(t *testing.T, plane *kube.ControlPlane, name string) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	err := statesClient(t, plane.Config()).Delete().Resource("nodestates").Name(name).Do(ctx).Error()
	if err != nil && !apierrors.IsNotFound(err) {
		t.Error(err)
	}
}

func newNode(t *testing.T, plane *kube.ControlPlane, name string) *corev1.Node {
	t.Helper()
	client := clientFor(t, plane.Config())
	node, err := client.CoreV1().Nodes().Create(t.Context(),
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return node
}

// nodeConfig returns the configuration of the agent on a node.
func nodeConfig(t *testing.T, plane *kube.ControlPlane, node *corev1.Node) *rest.Config {
	t.Helper()
	set := install(t, plane)
	path, err := plane.KubeconfigOn(t.Context(), set.Namespace,
		set.Spec.Template.Spec.ServiceAccountName, node)
	if err != nil {
		t.Fatal(err)
	}
	config := loadConfig(t, path)
	awaitRole(t, clientFor(t, config))
	return config
}

func statesClient(t *testing.T, config *rest.Config) rest.Interface {
	t.Helper()
	client, err := kubeclient.NewGroupClient(config, "test", v1alpha1.GroupVersion(),
		v1alpha1.AddToScheme)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func (a *nodeAgent) current() agentkube.State {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.state
}

func (a *nodeAgent) set(state agentkube.State) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.state = state
}

// await returns the node's state once it fulfils done.
func (a *nodeAgent) await(t *testing.T, plane *kube.ControlPlane, what string,
	done func(*v1alpha1.NodeState) bool) *v1alpha1.NodeState {
	t.Helper()
	states, found := statesClient(t, plane.Config()), &v1alpha1.NodeState{}
	eventually(t, what, func() bool {
		found = &v1alpha1.NodeState{}
		err := states.Get().Resource("nodestates").Name(a.node.Name).Do(t.Context()).Into(found)
		if err != nil && !apierrors.IsNotFound(err) {
			t.Fatal(err)
		}
		return err == nil && done(found)
	})
	return found
}

func runningNode() agentapi.Node {
	return agentapi.Node{
		Version: "v0.2.0", Mode: "enforce", Policy: "/etc/mooring/policy.yaml",
		NRI:     agentapi.NRI{State: agentapi.NRISynchronized, Since: time.Now()},
		Runtime: agentapi.Runtime{Name: "containerd", Version: "2.4.2"},
		Memlock: agentapi.Account{Granted: 5 << 30, Max: 64 << 30},
		Tracker: agentapi.Tracker{Available: true, Processes: 2, MaxProcesses: 1000},
	}
}

func runningLauncher(namespace, pod string) agentapi.Launcher {
	return agentapi.Launcher{
		Pod:       agentapi.PodRef{Namespace: namespace, Name: pod, UID: "uid-" + pod},
		Container: agentapi.ContainerRef{Name: "compute", ID: "id-" + pod, PID: 100},
		State:     agentapi.StateRunning, Mode: "enforce", Rule: "vms", Since: time.Now(),
		Settings: []agentapi.Setting{{Name: agentapi.MemlockSetting, Requested: "5Gi",
			Allowed: "16Gi", Given: "5Gi", Observed: "5Gi", Status: agentapi.StatusApplied}},
		Limits: podapi.Limits{Memory: 6 << 30, CPU: 2000},
		Phase:  agentapi.PhaseActive, PhaseSince: time.Now(),
		VMs: []agentapi.VM{{PID: 101, StartTime: 900, Executable: "qemu-kvm",
			State: agentapi.VMRunning, Since: time.Now(),
			Usage: &agentapi.Usage{Memory: 4 << 30, Locked: 4 << 30}}},
	}
}

// TestAgentWritesItsNodeState follows the object from its creation over a change to its end.
func TestAgentWritesItsNodeState(t *testing.T) {
	plane := Start(t)
	l := runningLauncher("vms", "vm-1")
	a := startNodeAgent(t, plane, "writes-1",
		agentkube.State{Node: runningNode(), Launchers: []agentapi.Launcher{l}})
	state := a.await(t, plane, "the node's state",
		func(s *v1alpha1.NodeState) bool { return len(s.Status.Launchers) == 1 })
	if !meta.IsStatusConditionTrue(state.Status.Conditions, v1alpha1.ConditionReady) ||
		state.Status.Totals.VMs != 1 || state.Status.Launchers[0].VMs[0].Usage.Locked != 4<<30 {
		t.Errorf("status %+v", state.Status)
	}
	if owner := metav1.GetControllerOf(state); owner == nil || owner.UID != a.node.UID {
		t.Errorf("owner %+v, want the Node", owner)
	}

	refused := agentapi.Launcher{Pod: agentapi.PodRef{Namespace: "vms", Name: "vm-2", UID: "2"},
		Container: agentapi.ContainerRef{Name: "compute"}, State: agentapi.StateRefused,
		Refusal: "20Gi is above the rule's 16Gi", Since: time.Now()}
	a.set(agentkube.State{Node: runningNode(), Launchers: []agentapi.Launcher{l, refused}})
	a.await(t, plane, "the refusal",
		func(s *v1alpha1.NodeState) bool { return s.Status.Totals.Refused == 1 })

	err := statesClient(t, plane.Config()).Delete().Resource("nodestates").Name(a.node.Name).
		Do(t.Context()).Error()
	if err != nil {
		t.Fatal(err)
	}
	a.set(agentkube.State{Node: runningNode()})
	a.await(t, plane, "a new object for the deleted one",
		func(s *v1alpha1.NodeState) bool { return s.Status.Node.Version == "v0.2.0" })
}

// TestAgentWritesOnlyItsOwnNodeState attempts what an attacker with the token of one node's agent
// would.
func TestAgentWritesOnlyItsOwnNodeState(t *testing.T) {
	plane := Start(t)
	victim := startNodeAgent(t, plane, "victim-1", agentkube.State{Node: runningNode()})
	victim.await(t, plane, "the node's state", func(*v1alpha1.NodeState) bool { return true })
	t.Cleanup(func() { deleteState(t, plane, "other-1") })
	attacker := statesClient(t, nodeConfig(t, plane, newNode(t, plane, "attacker-1")))
	unbound := statesClient(t, agentConfig(t, plane))

	admin := statesClient(t, plane.Config())
	forged := func() *v1alpha1.NodeState {
		state := &v1alpha1.NodeState{}
		if err := admin.Get().Resource("nodestates").Name("victim-1").Do(t.Context()).
			Into(state); err != nil {
			t.Fatal(err)
		}
		state.Status.Totals.Refused = 7
		return state
	}
	other := &v1alpha1.NodeState{ObjectMeta: metav1.ObjectMeta{Name: "other-1"}}
	for who, client := range map[string]rest.Interface{
		`"attacker-1"`: attacker, `""`: unbound,
	} {
		for what, request := range map[string]func() *rest.Request{
			"update the status": func() *rest.Request {
				return client.Put().Name("victim-1").SubResource("status").Body(forged())
			},
			"create": func() *rest.Request { return client.Post().Body(other) },
		} {
			// the API server begins to apply a new policy with a delay
			eventually(t, "the policy to deny "+what, func() bool {
				err := request().Resource("nodestates").Do(t.Context()).Error()
				return apierrors.IsForbidden(err) && strings.Contains(err.Error(), who)
			})
		}
	}
}

// startNodeAgentOn starts the writer of a ready node with these launchers.
func startNodeAgentOn(t *testing.T, plane *kube.ControlPlane, name string,
	launchers ...agentapi.Launcher) *nodeAgent {
	t.Helper()
	a := startNodeAgent(t, plane, name,
		agentkube.State{Node: runningNode(), Launchers: launchers})
	a.await(t, plane, "the node's state",
		func(s *v1alpha1.NodeState) bool { return !s.Status.HeartbeatTime.IsZero() })
	return a
}
