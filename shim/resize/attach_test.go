package resize_test

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/mooring-vm/mooring/shim/resize"
	"github.com/mooring-vm/mooring/shim/virt"
)

// A VM with KubeVirt's live update has a maximum memory, no slots and no memory device.
func TestPlanForKubeVirt(t *testing.T) {
	for _, c := range []struct {
		name   string
		m      *model
		memory uint64
		want   string // steps, or the refusal
	}{
		{"grow", vm(t).likeKubeVirt(), 2 * gi,
			"wait until memory.max of pod and container is at least 2132Mi\n" +
				"attach a virtio-mem device of 7Gi to NUMA cell 0, with 1Gi for the guest"},
		{"grow, with a lock for the whole device", vm(t).likeKubeVirt().passthrough(), 2 * gi,
			"wait until memory.max of pod and container is at least 2132Mi\n" +
				"raise QEMU's memory-lock limit from 2Gi to 9Gi\n" +
				"attach a virtio-mem device of 7Gi to NUMA cell 0, with 1Gi for the guest"},
		{"huge pages of 1Gi", changedVM(t, func(m *model) {
			m.likeKubeVirt().state.Memory.HugePage = gi
		}), gi + 512*mi, "1536Mi is not possible in steps of 1Gi: want 1Gi or 2Gi"},
		{"above the maximum", vm(t).likeKubeVirt(), 9 * gi,
			"9Gi exceeds the domain's <maxMemory>, 8Gi"},
		{"no cell", changedVM(t, func(m *model) { m.likeKubeVirt().state.Memory.Cells = 0 }),
			2 * gi, "a memory device needs a NUMA cell"},
	} {
		t.Run(c.name, func(t *testing.T) {
			plan, err := resize.MakePlan(observe(t, c.m.withLimits()), c.m.target(c.memory, 2),
				resize.Policy{})
			got := strings.Join(descriptions(plan.Steps), "\n")
			if err != nil {
				got = err.Error()
			}
			if err != nil && !strings.Contains(got, c.want) || err == nil && got != c.want {
				t.Errorf("got\n%s\nwant\n%s", got, c.want)
			}
		})
	}
}

// The device that the first growth attaches serves all later sizes.
func TestOneDevice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(vm(t).likeKubeVirt())
		for _, memory := range []uint64{2 * gi, 4 * gi, gi, 3 * gi} {
			report, err := r.run(t, r.m.target(memory, 2))
			if err != nil || report.Actual.Memory != memory {
				t.Fatalf("%v, %+v\n%s", err, report.Actual, stepLog(report))
			}
			want := []virt.MemoryDevice{{Alias: "virtiomem1", Model: virt.VirtioMem, Size: 7 * gi,
				Block: 2 * mi, Requested: memory - gi, Current: memory - gi}}
			if diff := cmp.Diff(want, r.m.state.Memory.Devices); diff != "" {
				t.Errorf("devices (-want +got)\n%s", diff)
			}
		}
	})
}

// Each step reserves the growth of the whole plan. The end of the run releases it.
func TestGrowthIsReserved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(vm(t).likeKubeVirt())
		if report, err := r.run(t, r.m.target(2*gi, 2)); err != nil {
			t.Fatalf("%v\n%s", err, stepLog(report))
		}
		if diff := cmp.Diff([]uint64{gi, gi, 0}, r.m.node.growth); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
	})
}

// A rollback leaves the device without memory, and its memory-lock limit.
func TestRollbackOfAttachment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(vm(t).likeKubeVirt().passthrough())
		r.m.guest.refuseTake = true
		report, err := r.run(t, r.m.target(2*gi, 2))
		if err == nil || report.Actual.Memory != gi || report.Actual.Possible != gi ||
			report.Actual.Lock != 9*gi {
			t.Errorf("%v, %+v\n%s", err, report.Actual, stepLog(report))
		}
		r.m.guest.refuseTake = false
		if report, err = r.run(t, r.m.target(2*gi, 2)); err != nil || len(report.Steps) != 2 {
			t.Errorf("%v\n%s", err, stepLog(report))
		}
	})
}
