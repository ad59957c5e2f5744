package fencing

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/mooring-vm/mooring/api/v1alpha1"
)

// Reason names a decision in metrics and Events.
type Reason string

// Proofs that the VM of a pod does not run.
const (
	NeverBound       Reason = "NeverBound"       // no node has the pod
	NeverStarted     Reason = "NeverStarted"     // by kubelet's word
	VMEnded          Reason = "VMEnded"          // by the word of kubelet and the agent
	NodeOutOfService Reason = "NodeOutOfService" // by an administrator's taint
	NodeFenced       Reason = "NodeFenced"       // by an administrator's `mooring fence`
)

// Reasons to wait.
const (
	NodeDeleted   Reason = "NodeDeleted"   // its kubelet may still run
	NodeNotReady  Reason = "NodeNotReady"  // kubelet does not answer
	LauncherRuns  Reason = "LauncherRuns"  // kubelet has not reported the end
	NoAgent       Reason = "NoAgent"       // the node has no NodeState
	AgentSilent   Reason = "AgentSilent"   // the NodeState is old
	AgentNotReady Reason = "AgentNotReady" // the agent has not reported about the pod yet
	VMRuns        Reason = "VMRuns"        // the agent found a process or VM, or does not know
)

// Reasons returns all reasons to wait.
func Reasons() []Reason {
	return []Reason{NodeDeleted, NodeNotReady, LauncherRuns, NoAgent, AgentSilent, AgentNotReady,
		VMRuns}
}

// Facts are the inputs of [Decide], which does not change them.
type Facts struct {
	Pod   *corev1.Pod         // deleted, with the finalizer
	Node  *corev1.Node        // of the pod; nil: there is none
	State *v1alpha1.NodeState // of the pod's node; nil: there is none
	Now   time.Time
}

// Decision is whether the finalizer may be removed.
type Decision struct {
	Release bool
	Reason  Reason
	Message string // the evidence, or the missing part and its remedy
}

// Decide decides about the finalizer of a deleted pod. It is pure. A missing answer never releases
// a pod.
func Decide(f Facts) Decision {
	name := f.Pod.Spec.NodeName
	switch {
	case name == "":
		return release(NeverBound, "the pod was never bound to a node")
	case f.Node != nil && isOutOfService(f.Node) && !Ready(f.Node):
		return release(NodeOutOfService, "node %s has the taint %s and is not ready", name,
			corev1.TaintNodeOutOfService)
	case kubeletEnded(f.Pod) && !everStarted(f.Pod):
		return release(NeverStarted, "kubelet of node %s ended the pod before a container started",
			name)
	}
	report, reported := reportOf(f.State, f.Pod)
	if kubeletEnded(f.Pod) && reported && report.Ended {
		return release(VMEnded, "kubelet of node %s reports the end of all containers, and the "+
			"agent found neither a process nor a VM of the pod", name)
	}
	if d, ok := waitForNode(f); ok {
		return d
	}
	return waitForAgent(f, report, reported)
}

func release(r Reason, format string, args ...any) Decision {
	return Decision{Release: true, Reason: r, Message: fmt.Sprintf(format, args...)}
}

func waiting(r Reason, format string, args ...any) Decision {
	return Decision{Reason: r, Message: fmt.Sprintf(format, args...)}
}

// waitForNode names the missing part of a pod before the word of its kubelet.
func waitForNode(f Facts) (d Decision, ok bool) {
	name := f.Pod.Spec.NodeName
	remedy := fmt.Sprintf("if the machine is off, run `kubectl mooring fence %s`", name)
	switch {
	case f.Node == nil:
		return waiting(NodeDeleted, "node %s has no Node object, and its VMs may run: %s", name,
			remedy), true
	case !Ready(f.Node):
		return waiting(NodeNotReady, "node %s is not ready, and its VMs may run: %s, or add the "+
			"taint %s", name, remedy, corev1.TaintNodeOutOfService), true
	case !kubeletEnded(f.Pod):
		return waiting(LauncherRuns, "kubelet of node %s has not reported the end of %s", name,
			runningNames(f.Pod)), true
	}
	return d, false
}

// waitForAgent names the missing part of a pod that kubelet has ended.
func waitForAgent(f Facts, report v1alpha1.DeletedPodReport, reported bool) Decision {
	name := f.Pod.Spec.NodeName
	switch {
	case f.State == nil:
		return waiting(NoAgent, "no agent of node %s has reported: install it there, or run "+
			"`kubectl mooring fence %s --force`", name, name)
	case f.State.Silent(f.Now):
		return waiting(AgentSilent, "the agent of node %s has not reported since %s: start it, or "+
			"if it is removed for good and the VM has ended, run `kubectl mooring fence %s --force`",
			name, f.State.Status.HeartbeatTime.UTC().Format(time.RFC3339), name)
	case !reported:
		return waiting(AgentNotReady, "the agent of node %s has not reported about the pod yet", name)
	}
	return waiting(VMRuns, "the agent of node %s: %s", name, report.Reason)
}

func reportOf(n *v1alpha1.NodeState, pod *corev1.Pod) (r v1alpha1.DeletedPodReport, ok bool) {
	if n == nil || n.Name != pod.Spec.NodeName {
		return r, false
	}
	for _, r := range n.Status.DeletedPods {
		if r.Pod.UID == string(pod.UID) {
			return r, true
		}
	}
	return r, false
}

// deletedByPodGC is a condition's reason: kube-controller-manager, in place of kubelet, has ended a
// pod of a missing node.
const deletedByPodGC = "DeletionByPodGC"

// kubeletEnded reports whether kubelet has ended the pod for good: in a terminal phase it starts no
// container. The phase alone is not its word, because pod garbage collection fails pods of missing
// nodes. Kubelet sets the start time with its first status.
func kubeletEnded(pod *corev1.Pod) bool {
	s := &pod.Status
	if s.Phase != corev1.PodSucceeded && s.Phase != corev1.PodFailed || s.StartTime == nil {
		return false
	}
	byKubelet, ended := true, len(s.ContainerStatuses) > 0
	for _, c := range s.Conditions {
		byKubelet = byKubelet && (c.Type != corev1.DisruptionTarget || c.Reason != deletedByPodGC)
	}
	for _, c := range s.ContainerStatuses {
		ended = ended && c.State.Terminated != nil
	}
	return len(running(pod)) == 0 && (byKubelet || ended)
}

func statuses(pod *corev1.Pod) []corev1.ContainerStatus {
	all := append([]corev1.ContainerStatus{}, pod.Status.InitContainerStatuses...)
	all = append(all, pod.Status.ContainerStatuses...)
	return append(all, pod.Status.EphemeralContainerStatuses...)
}

func running(pod *corev1.Pod) (names []string) {
	for _, c := range statuses(pod) {
		if c.State.Running != nil {
			names = append(names, c.Name)
		}
	}
	return names
}

// everStarted reports whether the status has a trace of a started container.
func everStarted(pod *corev1.Pod) bool {
	for _, c := range statuses(pod) {
		if c.State.Running != nil || c.State.Terminated != nil || c.ContainerID != "" ||
			c.LastTerminationState.Running != nil || c.LastTerminationState.Terminated != nil ||
			c.RestartCount > 0 {
			return true
		}
	}
	return false
}

func runningNames(pod *corev1.Pod) string {
	if names := running(pod); len(names) > 0 {
		return "container " + strings.Join(names, ", ")
	}
	return "the pod"
}

func isOutOfService(n *corev1.Node) bool {
	for _, t := range n.Spec.Taints {
		if t.Key == corev1.TaintNodeOutOfService {
			return true
		}
	}
	return false
}

// Ready reports whether kubelet of a node reports itself as ready.
func Ready(n *corev1.Node) bool {
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}
