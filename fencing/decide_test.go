package fencing

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mooring-vm/mooring/api/v1alpha1"
)

// endedPod is a deleted pod that kubelet has ended.
func endedPod() *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "vm", UID: "u1",
		DeletionTimestamp: &metav1.Time{Time: start}}}
	pod.Spec.NodeName = "n1"
	pod.Status = corev1.PodStatus{Phase: corev1.PodFailed, StartTime: &metav1.Time{Time: start},
		ContainerStatuses: []corev1.ContainerStatus{{Name: "compute", State: corev1.ContainerState{
			Terminated: &corev1.ContainerStateTerminated{}}}}}
	return pod
}

// facts has the proof that the VM of the pod has ended.
func facts() Facts {
	w := &world{}
	w.register()
	n := &v1alpha1.NodeState{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}
	n.Status.HeartbeatTime = metav1.NewTime(start)
	n.Status.DeletedPods = []v1alpha1.DeletedPodReport{{Pod: v1alpha1.PodReport{UID: "u1"},
		Ended: true}}
	return Facts{Pod: endedPod(), Node: w.node, State: n, Now: start}
}

func TestDecide(t *testing.T) {
	for name, tt := range map[string]struct {
		change  func(*Facts)
		release bool
		want    Reason
		message string // a part
	}{
		"the proof": {func(*Facts) {}, true, VMEnded, "kubelet of node n1"},
		// An answer does not become wrong.
		"an old proof":              {func(f *Facts) { f.Now = start.Add(time.Hour) }, true, VMEnded, ""},
		"a proof of a deleted node": {func(f *Facts) { f.Node = nil }, true, VMEnded, ""},
		"no node":                   {func(f *Facts) { f.Pod.Spec.NodeName = "" }, true, NeverBound, ""},
		"the report of another pod": {func(f *Facts) {
			f.State.Status.DeletedPods[0].Pod.UID = "u2"
		}, false, AgentNotReady, "node n1"},
		"the report of another node": {func(f *Facts) { f.State.Name = "n2" }, false, AgentNotReady,
			""},
		"a VM": {func(f *Facts) {
			f.State.Status.DeletedPods[0] = v1alpha1.DeletedPodReport{
				Pod: v1alpha1.PodReport{UID: "u1"}, Reason: "process 7 runs"}
		}, false, VMRuns, "process 7 runs"},
		"no agent": {func(f *Facts) { f.State = nil }, false, NoAgent, "--force"},
		"a silent agent": {func(f *Facts) {
			f.State.Status.DeletedPods, f.Now = nil, start.Add(time.Hour)
		}, false, AgentSilent, "since 2026-11-27T12:00:00Z: start it, or if it is removed for " +
			"good and the VM has ended, run `kubectl mooring fence n1 --force`"},
		"a container": {func(f *Facts) {
			f.Pod.Status.ContainerStatuses[0].State = corev1.ContainerState{
				Running: &corev1.ContainerStateRunning{}}
		}, false, LauncherRuns, "container compute"},
		"a phase that is not final": {func(f *Facts) {
			f.Pod.Status.Phase = corev1.PodRunning
		}, false, LauncherRuns, "the pod"},
		"a refused pod": {func(f *Facts) {
			f.Pod.Status.ContainerStatuses, f.State = nil, nil
		}, true, NeverStarted, ""},
		"a pod that kubelet has never seen": {func(f *Facts) {
			f.Pod.Status = corev1.PodStatus{Phase: corev1.PodFailed}
		}, false, LauncherRuns, ""},
		"a restarted container": {func(f *Facts) {
			f.Pod.Status.ContainerStatuses[0] = corev1.ContainerStatus{Name: "compute",
				RestartCount: 1}
			f.State = nil
		}, false, NoAgent, ""},
		"a node that is not ready": {func(f *Facts) {
			f.Node.Status.Conditions[0].Status = corev1.ConditionUnknown
			f.State = nil
		}, false, NodeNotReady, "out-of-service"},
		"a deleted node": {func(f *Facts) { f.Node, f.State = nil, nil }, false, NodeDeleted,
			"fence n1"},
		"the taint": {func(f *Facts) {
			f.Node.Status.Conditions, f.State = nil, nil
			f.Node.Spec.Taints = []corev1.Taint{{Key: corev1.TaintNodeOutOfService}}
		}, true, NodeOutOfService, "taint"},
		// Kubernetes obeys the taint of a ready node neither.
		"the taint of a ready node": {func(f *Facts) {
			f.State = nil
			f.Node.Spec.Taints = []corev1.Taint{{Key: corev1.TaintNodeOutOfService}}
		}, false, NoAgent, ""},
	} {
		t.Run(name, func(t *testing.T) {
			f := facts()
			tt.change(&f)
			got := Decide(f)
			if got.Release != tt.release || got.Reason != tt.want ||
				!strings.Contains(got.Message, tt.message) {
				t.Errorf("got %+v, want %t, %s, %q", got, tt.release, tt.want, tt.message)
			}
		})
	}
}
