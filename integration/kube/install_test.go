package kubetest

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestThePodsAreAdmitted makes pods from the DaemonSets' templates. The API server validates a
// template fully only for a pod.
func TestThePodsAreAdmitted(t *testing.T) {
	plane := Start(t)
	admin := clientFor(t, plane.Config())
	for _, set := range installAll(t, plane) {
		p := &corev1.Pod{ObjectMeta: set.Spec.Template.ObjectMeta, Spec: set.Spec.Template.Spec}
		p.GenerateName = set.Name + "-"
		dryRun := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
		admitted, err := admin.CoreV1().Pods(set.Namespace).Create(t.Context(), p, dryRun)
		if err != nil {
			t.Fatalf("%s: %v", set.Name, err)
		}
		if admitted.Spec.Priority == nil || *admitted.Spec.Priority < 1e9 {
			t.Errorf("%s: priority %v, want that of a critical pod", set.Name,
				admitted.Spec.Priority)
		}
	}
}
