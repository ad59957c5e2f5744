package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/client-go/rest"

	"github.com/mooring-vm/mooring/agent/admin"
	"github.com/mooring-vm/mooring/api/v1alpha1"
	"github.com/mooring-vm/mooring/internal/kubeclient"
)

const (
	agentSelector = "app.kubernetes.io/name=mooring,app.kubernetes.io/component=agent"
	nodeStates    = "nodestates"
)

// Answers of a node.
const (
	answerReady    = "Ready"
	answerNotReady = "NotReady"
	answerNone     = "NoAnswer"
	// answerNoAgent is a node whose agent was a pod, and has none now: its DaemonSet does not
	// select the node any more, or is gone.
	answerNoAgent = "NoAgent"
)

// fleetNode is a node with an agent, or with a pod that is to run one.
type fleetNode struct {
	name   string
	answer string // answerReady, answerNotReady, answerNone or answerNoAgent
	reason string // of another answer than answerReady
	state  *v1alpha1.NodeState
}

// fleet has the nodes of a cluster by name.
type fleet struct {
	read  time.Time // by the clock of the API server
	nodes []fleetNode
	pods  map[string]*corev1.Pod // of agents, by node; nil: unknown
	notes []string               // unread parts, with reasons
}

// fleetReader reads the fleet from a cluster.
type fleetReader struct {
	*cluster
	states rest.Interface
	clock  *serverClock
}

func (p *Program) fleetReader(c *cluster) (*fleetReader, error) {
	clock := &serverClock{local: p.Now}
	config := rest.CopyConfig(c.config)
	config.Wrap(clock.wrap)
	states, err := kubeclient.NewGroupClient(config, "mooring/"+p.Build.Version,
		v1alpha1.GroupVersion(), v1alpha1.AddToScheme)
	if err != nil {
		return nil, err
	}
	return &fleetReader{cluster: c, states: states, clock: clock}, nil
}

func (r *fleetReader) read(ctx context.Context) (*fleet, error) {
	ctx, cancel := context.WithTimeout(ctx, clusterTimeout)
	defer cancel()
	var list v1alpha1.NodeStateList
	err := r.states.Get().Resource(nodeStates).Do(ctx).Into(&list)
	switch {
	case apierrors.IsNotFound(err):
		return nil, &admin.NotFoundError{Message: "nodestates.mooring.dev is not installed in " +
			"this cluster: install Mooring first"}
	case err != nil:
		return nil, clusterError(err, "list", nodeStates, "read the states of nodes")
	}
	f := &fleet{read: r.clock.now()}
	for i := range list.Items {
		f.nodes = append(f.nodes, judge(&list.Items[i], f.read))
	}
	switch err := r.readPods(ctx, f); {
	case isForbidden(err):
		f.notes = append(f.notes, err.Error())
	case err != nil:
		return nil, err
	}
	slices.SortFunc(f.nodes, func(a, b fleetNode) int {
		return cmp.Compare(a.name, b.name)
	})
	return f, nil
}

// judge returns the node of a state.
func judge(state *v1alpha1.NodeState, now time.Time) fleetNode {
	n := fleetNode{name: state.Name, answer: answerReady, state: state}
	heartbeat := state.Status.HeartbeatTime.Time
	ready := meta.FindStatusCondition(state.Status.Conditions, v1alpha1.ConditionReady)
	switch silent := now.Sub(heartbeat); {
	case heartbeat.IsZero():
		n.answer, n.reason = answerNone, "the agent has written no state yet"
	case state.Silent(now):
		n.answer = answerNone
		n.reason = "the agent wrote its last state " + duration.HumanDuration(silent) + " ago"
	case ready == nil || ready.Status != metav1.ConditionTrue:
		n.answer = answerNotReady
		if ready != nil {
			n.reason = ready.Message
		}
	}
	return n
}

// readPods adds the nodes that have an agent's pod and no state, and finds those that lost their
// agent.
func (r *fleetReader) readPods(ctx context.Context, f *fleet) error {
	pods, err := r.agentPods(ctx)
	if err != nil {
		return err
	}
	f.pods = podsByNode(pods)
	for i := range f.nodes {
		n := &f.nodes[i]
		if n.answer == answerNone && f.pods[n.name] == nil && n.state.Status.Node.InPod {
			n.answer = answerNoAgent
			n.reason = "no pod of the agent is to run there; " + n.reason
		}
	}
	for node, pod := range f.pods {
		known := slices.ContainsFunc(f.nodes, func(n fleetNode) bool { return n.name == node })
		if !known {
			f.nodes = append(f.nodes, fleetNode{name: node, answer: answerNone,
				reason: fmt.Sprintf("the agent has written no state; its pod %s/%s is %s",
					pod.Namespace, pod.Name, pod.Status.Phase)})
		}
	}
	return nil
}

// podsByNode returns the agent's pod of each node, a running one first.
func podsByNode(all []corev1.Pod) map[string]*corev1.Pod {
	pods := map[string]*corev1.Pod{}
	for i := range all {
		pod := &all[i]
		node := nodeOf(pod)
		if before := pods[node]; node != "" && pod.DeletionTimestamp == nil &&
			(before == nil || before.Status.Phase != corev1.PodRunning) {
			pods[node] = pod
		}
	}
	return pods
}

// agentPods lists the pods of agents.
func (c *cluster) agentPods(ctx context.Context) ([]corev1.Pod, error) {
	list, err := c.CoreV1().Pods(metav1.NamespaceAll).List(ctx,
		metav1.ListOptions{LabelSelector: agentSelector})
	if err != nil {
		return nil, clusterError(err, "list", "pods", "nodes without a state are not known")
	}
	return list.Items, nil
}

// nodeOf returns the node of a DaemonSet's pod, also before the scheduler has bound it.
func nodeOf(pod *corev1.Pod) string {
	if pod.Spec.NodeName != "" {
		return pod.Spec.NodeName
	}
	affinity := pod.Spec.Affinity
	if affinity == nil || affinity.NodeAffinity == nil ||
		affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return ""
	}
	required := affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	for _, term := range required.NodeSelectorTerms {
		for _, field := range term.MatchFields {
			if field.Key == metav1.ObjectNameField && len(field.Values) == 1 {
				return field.Values[0]
			}
		}
	}
	return ""
}
