package resizevm

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/mooring-vm/mooring/api"
)

// A user withdraws a growth that kubelet has not accepted: the next patch takes it back.
func TestWithdrawnGrowth(t *testing.T) {
	for name, sizes := range map[string][]string{
		"to the old size":          {api.VCPUsKey, "2", api.ResizeMemoryKey, "1Gi"},
		"to a smaller one":         {api.VCPUsKey, "1", api.ResizeMemoryKey, "512Mi"},
		"of one dimension":         {api.VCPUsKey, "2"},
		"to no size":               nil,
		"to a bad value":           {api.VCPUsKey, "none"},
		"to more than the maximum": {api.VCPUsKey, "2", api.ResizeMemoryKey, "9Gi"},
		"to more than the quota":   {api.VCPUsKey, "8"},
	} {
		for kind, s := range shapes() {
			for state, kubelet := range map[string]func(*world){
				"deferred": (*world).deferResize,
				"unseen":   func(*world) {},
			} {
				t.Run(name+"/"+kind+"/"+state, func(t *testing.T) {
					w := newWorld(s)
					w.ask(api.VCPUsKey, "4", api.ResizeMemoryKey, "4Gi")
					w.apply(w.decide(t))
					kubelet(w)
					w.hard = list("requests.cpu", "300m", "limits.cpu", "5")
					w.ask(sizes...)
					d := w.decide(t)
					if d.Resources == nil || !sameResources(*d.Resources, s.launcher) {
						t.Fatalf("%+v, want the resources of the start", d)
					}
					w.apply(d)
					w.deferResize() // seen before the patch
					w.pod.Generation = 2
					w.pod.Status.Conditions[0].ObservedGeneration = 1
					if d := w.decide(t); d.Resources != nil || d.Status != nil &&
						d.Status.Reason == api.ResizeNoNode {
						t.Errorf("after the patch %+v", d)
					}
				})
			}
		}
	}
}

// A smaller growth replaces the one that kubelet has not accepted.
func TestReducedGrowth(t *testing.T) {
	w, direct := newWorld(shapes()["burstable"]), newWorld(shapes()["burstable"])
	w.ask(api.ResizeMemoryKey, "4Gi")
	w.apply(w.decide(t))
	w.deferResize()
	w.ask(api.ResizeMemoryKey, "2Gi")
	direct.ask(api.ResizeMemoryKey, "2Gi")
	d, want := w.decide(t), direct.decide(t)
	if d.Resources == nil || !sameResources(*d.Resources, *want.Resources) {
		t.Errorf("%+v, want %+v", d.Resources, want.Resources)
	}
}

// Kubelet's status about limits may be older than the cgroup. A limit never falls below the size
// that the pod asks mooring-shim for.
func TestAcceptedGrowthStays(t *testing.T) {
	w := newWorld(shapes()["burstable"])
	w.ask(api.ResizeMemoryKey, "4Gi")
	w.settle(t)
	limit := w.resources().Limits[corev1.ResourceMemory]
	w.pod.Status.ContainerStatuses[0].Resources.Limits = w.shape.launcher.Limits
	w.ask(api.ResizeMemoryKey, "6Gi")
	w.apply(w.decide(t))
	w.deferResize()
	w.ask(api.ResizeMemoryKey, "1Gi")
	d := w.decide(t)
	if got := d.Resources.Limits[corev1.ResourceMemory]; got.Cmp(limit) != 0 {
		t.Errorf("limit %s, want %s of the guest", &got, &limit)
	}
}

// Mooring takes back only its own growth.
func TestForeignGrowthStays(t *testing.T) {
	w := newWorld(shapes()["burstable"])
	w.resources().Requests[corev1.ResourceMemory] = resource.MustParse("2Gi")
	w.deferResize()
	if d := w.decide(t); d.Pod != nil {
		t.Errorf("%+v, want nothing", d)
	}
}
