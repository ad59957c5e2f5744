package kube

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/api/podapi"
)

func limits(memory, cpu string) corev1.ResourceRequirements {
	return corev1.ResourceRequirements{Limits: corev1.ResourceList{
		corev1.ResourceMemory: resource.MustParse(memory),
		corev1.ResourceCPU:    resource.MustParse(cpu),
	}}
}

func launcherPod() *corev1.Pod {
	p := pod("uid-1", "vm-1", "default")
	p.Annotations = map[string]string{
		api.LauncherKey: "compute", api.VCPUsKey: "4",
		api.CPUQuotaKey + "/container.compute": "150%", "other": "x",
	}
	p.Spec.Containers = []corev1.Container{
		{Name: "sidecar", Image: "i", Resources: limits("1Gi", "1")},
		{Name: "compute", Image: "i", Resources: limits("4Gi", "1500m")},
	}
	whole := limits("5Gi", "2")
	p.Spec.Resources = &whole
	return p
}

func annotated(_, annotations map[string]string) (string, bool) {
	name, ok := annotations[api.LauncherKey]
	return name, ok
}

func TestDesired(t *testing.T) {
	client := fake.NewClientset(launcherPod(), pod("uid-2", "plain", "default"))
	c := startCacheWith(t, client, annotated)
	want := podapi.Desired{
		Launcher: "compute", Limits: podapi.Limits{Memory: 4 << 30, CPU: 1500},
		Pod:  podapi.Limits{Memory: 5 << 30, CPU: 2000},
		Size: api.Size{VCPUs: 4, CPUQuota: api.CPUQuota{Percent: 150}},
	}
	got, ok := c.Desired("uid-1", "compute")
	if diff := cmp.Diff(want, got); diff != "" || !ok {
		t.Errorf("known: %t (-want +got)\n%s", ok, diff)
	}
	for _, uid := range []string{"uid-2", "unknown"} {
		if got, ok := c.Desired(uid, "compute"); ok {
			t.Errorf("desired state of %s: %+v, want none", uid, got)
		}
	}
	changed := launcherPod()
	changed.Annotations[api.VCPUsKey] = "8"
	changed.Spec.Containers[1].Resources = limits("8Gi", "4")
	if _, err := client.CoreV1().Pods(changed.Namespace).Update(t.Context(), changed,
		metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the change", func() bool {
		d, _ := c.Desired("uid-1", "compute")
		return d.Limits == podapi.Limits{Memory: 8 << 30, CPU: 4000} && d.VCPUs == 8
	})
	if d, ok := c.Desired("uid-1", "other"); !ok || d.CPUQuota != (api.CPUQuota{}) {
		t.Errorf("%+v for another container, want nothing of compute's annotations", d)
	}
	changed.Annotations[api.VCPUsKey] = "lots"
	if _, err := client.CoreV1().Pods(changed.Namespace).Update(t.Context(), changed,
		metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the error", func() bool {
		d, _ := c.Desired("uid-1", "compute")
		return d.Size == api.Size{} &&
			strings.Contains(d.Error, `vcpus.resize.mooring.dev: "lots": want a number`)
	})
}

// The cache keeps little of launcher pods, and no more of others than before. A second transform
// changes nothing.
func TestLeanLauncher(t *testing.T) {
	c := &PodCache{findLauncher: annotated}
	lean := c.withDesired(trimPod(testNode))
	var kept any = launcherPod()
	for range 2 {
		var err error
		if kept, err = lean(kept); err != nil {
			t.Fatal(err)
		}
	}
	whole, own := limits("5Gi", "2"), limits("4Gi", "1500m")
	want := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{UID: "uid-1", Namespace: "vms", Name: "vm-1",
			Labels: map[string]string{"kubevirt.io": "virt-launcher"},
			Annotations: map[string]string{
				api.LauncherKey: "compute", api.VCPUsKey: "4",
				api.CPUQuotaKey + "/container.compute": "150%",
			}},
		Spec: corev1.PodSpec{
			ServiceAccountName: "default", Resources: &whole,
			Containers: []corev1.Container{{Name: "compute", Resources: own}},
		},
	}
	if diff := cmp.Diff(want, kept); diff != "" {
		t.Errorf("kept (-want +got)\n%s", diff)
	}
	if kept, err := lean(pod("uid-2", "plain", "default")); err != nil ||
		len(kept.(*corev1.Pod).Spec.Containers) > 0 {
		t.Errorf("kept of a plain pod: %+v, %v", kept, err)
	}
}
