package kubetest

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestTheAgentsPodIsAdmitted makes a pod as the DaemonSet controller would: what
// is wrong with a pod template shows only then.
func TestTheAgentsPodIsAdmitted(t *testing.T) {
	plane := Start(t)
	admin := clientFor(t, plane.Config())
	set := install(t, plane)
	p := &corev1.Pod{ObjectMeta: set.Spec.Template.ObjectMeta, Spec: set.Spec.Template.Spec}
	p.GenerateName = set.Name + "-"
	admitted, err := admin.CoreV1().Pods(set.Namespace).Create(t.Context(), p, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	if err != nil {
		t.Fatal(err)
	}
	if admitted.Spec.Priority == nil || *admitted.Spec.Priority < 1e9 {
		t.Errorf("priority %v, want that of a critical pod", admitted.Spec.Priority)
	}
}
