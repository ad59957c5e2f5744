package resizevm

import (
	"slices"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/api/v1alpha1"
	"github.com/mooring-vm/mooring/quota"
)

// TestSafeAndLive changes a VM, its quota and its node at random, and loses patches. No patch
// exceeds the quota or the bounds of the VM, changes the QoS class, or lowers a limit below the
// guest. After the faults the VM reaches the desired size, and the next decision has no patch.
func TestSafeAndLive(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		kinds := shapes()
		w := newWorld(kinds[rapid.SampledFrom([]string{"requests only", "burstable",
			"guaranteed"}).Draw(t, "shape")])
		for range rapid.IntRange(0, 25).Draw(t, "steps") {
			w.disturb(t)
			d := w.decide(t)
			w.checkSafe(t, d)
			if rapid.Bool().Draw(t, "patch arrives") {
				w.apply(d)
			}
		}
		w.hard = list("requests.memory", "64Gi", "limits.memory", "64Gi")
		w.vmi.Status.MigrationState = nil
		w.ask(api.VCPUsKey, "3", api.ResizeMemoryKey, "2Gi")
		w.accept()
		if status := w.settle(t); status.Reason != api.ResizeDone {
			t.Fatalf("status %+v", status)
		}
		w.checkReached(t)
	})
}

// disturb is one event of the world.
func (w *world) disturb(t *rapid.T) {
	switch rapid.IntRange(0, 8).Draw(t, "event") {
	case 0:
		w.ask(api.VCPUsKey, strconv.Itoa(rapid.IntRange(0, 9).Draw(t, "vcpus")))
	case 1:
		w.ask(api.VCPUsKey, strconv.Itoa(rapid.IntRange(1, 8).Draw(t, "vcpus")),
			api.ResizeMemoryKey, strconv.Itoa(rapid.IntRange(0, 9).Draw(t, "memory"))+"Gi")
	case 2:
		w.ask()
	case 3:
		n := strconv.Itoa(rapid.IntRange(0, 10).Draw(t, "quota"))
		w.hard = list("requests.memory", n+"Gi", "limits.memory", n+"Gi", "limits.cpu", n)
	case 4:
		w.start()
	case 5:
		w.deferResize()
	case 6:
		w.accept()
	case 7:
		w.vmi.Status.MigrationState = rapid.SampledFrom(
			[]*kubevirtv1.VirtualMachineInstanceMigrationState{nil, {}}).Draw(t, "migration")
	case 8:
		w.follow()
	}
}

func (w *world) checkSafe(t *rapid.T, d Decision) {
	if d.Resources != nil && len(d.Annotations) > 0 {
		t.Fatalf("two patches at once: %+v", d)
	}
	if d.Resources == nil && len(d.Annotations) == 0 {
		return
	}
	if d.Resources != nil && sameResources(raised(*w.resources(), *d.Resources), *w.resources()) {
		w.checkFloor(t, d)
		return // whatever the annotations ask for
	}
	size, err := api.ParseVMSize(w.vm.Annotations)
	if err != nil || size.VCPUs > 8 || size.Memory > 8*gib ||
		w.vmi.Status.MigrationState != nil {
		t.Fatalf("a patch for %v: %+v", w.vm.Annotations, d)
	}
	if d.Resources == nil {
		return
	}
	w.checkFloor(t, d)
	before := quota.Charge(w.pod)
	after := w.pod.DeepCopy()
	after.Spec.Containers[0].Resources = *d.Resources
	for name, q := range quota.Charge(after) {
		hard, limited := w.hard[name]
		was := before[name]
		if limited && q.Cmp(was) > 0 && q.Cmp(hard) > 0 {
			t.Fatalf("%s grows to %s, beyond the quota of %s", name, &q, &hard)
		}
	}
}

// checkFloor checks that new resources keep keys and QoS class, and suffice for the guest.
func (w *world) checkFloor(t *rapid.T, d Decision) {
	now := *w.resources()
	after := w.pod.DeepCopy()
	after.Spec.Containers[0].Resources = *d.Resources
	if referenceClass(w.pod) != referenceClass(after) ||
		!slices.Equal(names(now), names(*d.Resources)) {
		t.Fatalf("QoS class or keys change from %+v to %+v", now, *d.Resources)
	}
	if limit, ok := d.Resources.Limits[corev1.ResourceMemory]; ok &&
		limit.Value() < w.guest.Memory {
		t.Fatalf("limit %s below the guest's %d", &limit, w.guest.Memory)
	}
}

func names(r corev1.ResourceRequirements) []string {
	var all []string
	for name := range r.Requests {
		all = append(all, "requests."+string(name))
	}
	for name := range r.Limits {
		all = append(all, "limits."+string(name))
	}
	slices.Sort(all)
	return all
}

func (w *world) checkReached(t *rapid.T) {
	if want := (v1alpha1.SizeReport{VCPUs: 3, Memory: 2 * gib}); w.guest != want {
		t.Fatalf("guest %+v, want %+v", w.guest, want)
	}
	fresh := newWorld(w.shape)
	fresh.ask(api.VCPUsKey, "3", api.ResizeMemoryKey, "2Gi")
	fresh.settle(t)
	if !sameResources(*w.resources(), *fresh.resources()) {
		t.Fatalf("resources %+v, want %+v as without faults", *w.resources(), *fresh.resources())
	}
}
