package fencing

import (
	"math/rand/v2"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mooring-vm/mooring/api/v1alpha1"
)

var start = time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)

// world is a model of one pod, the machine of its node, and the objects in the API. Kubelet and
// agent may be cut off from the API, each alone.
type world struct {
	steps steps
	now   time.Time

	// the machine
	on        bool
	cgroup    bool // of the pod
	container bool // runs
	vm        bool // runs: in the container, or node-level and able to outlive it
	nodeLevel bool
	began     bool // a container has run
	restarts  bool // kubelet restarts an ended container

	// kubelet's knowledge
	kubeletUp, kubeletOnline   bool
	knowsPod, knowsEnd, killed bool

	agentUp, agentOnline bool

	// the API
	pod   *corev1.Pod
	node  *corev1.Node
	state *v1alpha1.NodeState
}

func newWorld(r *rand.Rand) *world {
	w := &world{
		steps: newSteps(), now: start, on: true, kubeletUp: true, kubeletOnline: true, agentUp: true,
		agentOnline: true, nodeLevel: r.IntN(2) == 0, restarts: r.IntN(2) == 0,
		pod: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "vm", UID: "u1"},
			Status: corev1.PodStatus{Phase: corev1.PodPending}},
	}
	w.register()
	return w
}

func (w *world) deleted() bool { return w.pod.DeletionTimestamp != nil }

func (w *world) terminal() bool {
	return w.pod.Status.Phase == corev1.PodFailed || w.pod.Status.Phase == corev1.PodSucceeded
}

func (w *world) kubelet() bool { return w.on && w.kubeletUp }
func (w *world) agent() bool   { return w.on && w.agentUp }

func (w *world) facts() Facts {
	return Facts{Pod: w.pod.DeepCopy(), Node: w.node.DeepCopy(), State: w.state.DeepCopy(),
		Now: w.now}
}

func (w *world) register() {
	w.node = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}
	w.setReady(true)
}

func (w *world) setReady(ready bool) {
	s := corev1.ConditionUnknown
	if ready {
		s = corev1.ConditionTrue
	}
	w.node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: s}}
}

// step is one event with its condition.
type step struct {
	name string
	may  func(*world) bool
	do   func(*world)
}

// steps are the events of the model. Faults are rarer.
type steps struct{ progress, faults []step }

func newSteps() steps {
	return steps{slices.Concat(podSteps(), kubeletSteps(), agentSteps()),
		slices.Concat(faultSteps(), clusterSteps())}
}

func podSteps() []step {
	return []step{
		{"bind", func(w *world) bool { return w.pod.Spec.NodeName == "" && !w.deleted() },
			func(w *world) { w.pod.Spec.NodeName = "n1" }},
		{"delete", func(w *world) bool { return !w.deleted() },
			func(w *world) { w.pod.DeletionTimestamp = &metav1.Time{Time: w.now} }},
	}
}

func kubeletSteps() []step {
	return []step{
		{"kubelet learns the pod", func(w *world) bool {
			return w.kubelet() && w.kubeletOnline && w.pod.Spec.NodeName != ""
		}, func(w *world) { w.knowsPod, w.knowsEnd = true, w.deleted() || w.terminal() }},
		{"kubelet prepares the pod", func(w *world) bool {
			return w.kubelet() && w.knowsPod && !w.knowsEnd && !w.killed
		}, func(w *world) { w.cgroup = true }},
		{"kubelet starts the container", func(w *world) bool {
			return w.kubelet() && w.cgroup && !w.knowsEnd && !w.container &&
				(!w.began || w.restarts)
		}, func(w *world) { w.container, w.began = true, true }},
		{"the VM starts", func(w *world) bool { return w.on && w.container },
			func(w *world) { w.vm = true }},
		{"the container crashes", func(w *world) bool { return w.on && w.container },
			func(w *world) { w.container, w.vm = false, w.vm && w.nodeLevel }},
		{"the VM ends", func(w *world) bool { return w.on && w.vm },
			func(w *world) { w.vm = false }},
		{"kubelet kills the pod", func(w *world) bool {
			return w.kubelet() && w.knowsPod && w.knowsEnd && !w.killed
		}, func(w *world) {
			w.container, w.vm, w.killed = false, w.vm && w.nodeLevel, true
			w.cgroup = false
		}},
		{"kubelet writes the status", func(w *world) bool {
			return w.kubelet() && w.kubeletOnline && w.knowsPod
		}, (*world).writeStatus},
	}
}

// writeStatus writes kubelet's knowledge. It never takes a terminal phase back.
func (w *world) writeStatus() {
	s := &w.pod.Status
	s.StartTime = &metav1.Time{Time: start}
	c := corev1.ContainerStatus{Name: "compute"}
	switch {
	case w.container:
		c.State.Running = &corev1.ContainerStateRunning{}
	case w.began:
		c.State.Terminated = &corev1.ContainerStateTerminated{}
	default:
		c.State.Waiting = &corev1.ContainerStateWaiting{}
	}
	s.ContainerStatuses = []corev1.ContainerStatus{c}
	ended := w.killed || w.began && !w.container && !w.restarts
	switch {
	case w.terminal():
	case ended:
		s.Phase, w.knowsEnd = corev1.PodFailed, true
	case w.container:
		s.Phase = corev1.PodRunning
	}
}

func agentSteps() []step {
	return []step{
		{"the agent reports", func(w *world) bool {
			return w.agent() && w.agentOnline && w.node != nil
		}, func(w *world) {
			w.state = &v1alpha1.NodeState{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}
			w.state.Status.HeartbeatTime = metav1.NewTime(w.now)
			if w.deleted() {
				ended := !w.cgroup && !w.container && !w.vm
				w.state.Status.DeletedPods = []v1alpha1.DeletedPodReport{{
					Pod: v1alpha1.PodReport{UID: "u1"}, Ended: ended, Reason: "a VM runs"}}
			}
		}},
	}
}

func faultSteps() []step {
	always := func(*world) bool { return true }
	return []step{
		{"kubelet goes", always, func(w *world) { w.kubeletUp = false }},
		{"kubelet comes", always, func(w *world) { w.kubeletUp = true }},
		{"kubelet is cut off", always, func(w *world) { w.kubeletOnline = false }},
		{"kubelet is back", always, func(w *world) { w.kubeletOnline = true }},
		{"the agent goes", always, func(w *world) { w.agentUp = false }},
		{"the agent comes", always, func(w *world) { w.agentUp = true }},
		{"the agent is cut off", always, func(w *world) { w.agentOnline = false }},
		{"the agent is back", always, func(w *world) { w.agentOnline = true }},
		{"power off", always, func(w *world) {
			w.on, w.container, w.vm, w.cgroup = false, false, false, false
		}},
		// Kubelet starts with the state of the API.
		{"power on", func(w *world) bool { return !w.on }, func(w *world) {
			w.on, w.knowsPod, w.knowsEnd = true, false, false
		}},
		{"time passes", always, func(w *world) { w.now = w.now.Add(v1alpha1.NodeStateMaxAge + 1) }},
	}
}

func clusterSteps() []step {
	node := func(w *world) bool { return w.node != nil }
	return []step{
		{"the node is delayed", node, func(w *world) {
			w.setReady(w.kubelet() && w.kubeletOnline)
		}},
		{"the Node is deleted", node, func(w *world) { w.node, w.state = nil, nil }},
		{"the Node registers", func(w *world) bool {
			return w.node == nil && w.kubelet() && w.kubeletOnline
		}, (*world).register},
		{"a pod of no node is collected", func(w *world) bool {
			return w.node == nil && w.pod.Spec.NodeName != ""
		}, func(w *world) {
			if !w.terminal() {
				w.pod.Status.Phase = corev1.PodFailed
			}
			w.pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.DisruptionTarget,
				Reason: deletedByPodGC, Status: corev1.ConditionTrue}}
			if !w.deleted() {
				w.pod.DeletionTimestamp = &metav1.Time{Time: w.now}
			}
		}},
		// An administrator taints only a machine that is off, and switches it on no more.
		{"the node is out of service", func(w *world) bool {
			return w.node != nil && !w.on && w.deleted()
		}, func(w *world) {
			w.setReady(false)
			w.node.Spec.Taints = []corev1.Taint{{Key: corev1.TaintNodeOutOfService}}
		}},
	}
}
