package controller

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/mooring-vm/mooring/api/v1alpha1"
	"github.com/mooring-vm/mooring/quota"
)

// sized is a launcher with this memory as its request, and another one as its limit.
func sized(request, limit string) *corev1.Pod {
	pod := launcher("sized", nil)
	pod.Spec.Containers[0].Resources = corev1.ResourceRequirements{
		Requests: memory(request), Limits: memory(limit)}
	return pod
}

// TestSharedContainers: trimmed pods share containers only if they have the same charge, also after
// more charges than the controller remembers.
func TestSharedContainers(t *testing.T) {
	pods := []*corev1.Pod{sized("1Gi", "2Gi"), sized("2Gi", "2Gi"), sized("2Gi", "1Gi"),
		sized("1000Mi", "2Gi")}
	sets := &containerSets{all: map[string][]corev1.Container{}}
	for range 2 {
		for i, pod := range pods {
			charge := quota.Reserve(v1alpha1.RoleLauncher, pod).Charge
			first, second := sets.of(charge), sets.of(charge)
			if &first[0] != &second[0] {
				t.Errorf("pod %d: not shared", i)
			}
			if diff := cmp.Diff(pod.Spec.Containers[0].Resources, first[0].Resources); diff != "" {
				t.Errorf("pod %d: resources (-want +got):\n%s", i, diff)
			}
		}
		for i := range maxShared {
			sets.of(corev1.ResourceList{"requests.memory": *resource.NewQuantity(int64(i),
				resource.BinarySI)})
		}
		if n := len(sets.all); n > maxShared {
			t.Errorf("%d charges remembered, want at most %d", n, maxShared)
		}
	}
}
