package resize_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/shim/resize"
	"github.com/mooring-vm/mooring/shim/resize/target"
	"github.com/mooring-vm/mooring/shim/virt"
)

// vm is a model with 1 GiB and 2 vCPUs.
func vm(t *testing.T) *model {
	t.Helper()
	return newModel(gi, 8*gi, func(format string, args ...any) {
		t.Helper()
		t.Errorf(format, args...)
	})
}

// observe observes a model.
func observe(t *testing.T, m *model) resize.Observed {
	t.Helper()
	is, err := resize.Read(context.Background(), m, agent{m})
	if err != nil {
		t.Fatal(err)
	}
	return is
}

// target returns a target with the model's overhead.
func (m *model) target(memory uint64, vcpus int) target.Target {
	overhead := m.overhead(memory, vcpus)
	return target.Target{
		Generation: 1,
		Size:       api.Size{Memory: api.Bytes(memory), VCPUs: vcpus},
		Overhead:   overhead,
		Limit:      memory + overhead,
	}
}

// descriptions returns the descriptions of steps.
func descriptions(steps resize.Steps) []string {
	all := make([]string, 0, len(steps))
	for _, s := range steps {
		all = append(all, s.String())
	}
	return all
}

func TestPlanOrder(t *testing.T) {
	half := &target.Bandwidth{Period: 100 * time.Millisecond, Quota: 50 * time.Millisecond}
	for _, c := range []struct {
		name      string
		m         *model
		memory    uint64
		vcpus     int
		bandwidth *target.Bandwidth
		want      []string
	}{
		{"nothing", vm(t).virtioMem(gi, 0), gi, 2, nil, nil},
		{
			"grow by virtio-mem",
			vm(t).virtioMem(2*gi, 0),
			2 * gi,
			2,
			nil,
			[]string{
				"wait until memory.max of pod and container is at least 2132Mi",
				"resize memory device virtiomem1 from 0 to 1Gi",
			},
		},
		{
			"grow by two virtio-mem",
			vm(t).virtioMem(256*mi, 0).virtioMem(gi, 2*mi),
			gi + 512*mi,
			2,
			nil,
			[]string{
				"wait until memory.max of pod and container is at least 1619Mi",
				"resize memory device virtiomem1 from 0 to 256Mi",
				"resize memory device virtiomem2 from 2Mi to 256Mi",
			},
		},
		{
			"grow by a DIMM, with a lock",
			vm(t).passthrough(),
			2 * gi,
			2,
			nil,
			[]string{
				"wait until memory.max of pod and container is at least 2132Mi",
				"raise QEMU's memory-lock limit from 2Gi to 3Gi",
				"plug a DIMM of 1Gi into NUMA cell 0",
			},
		},
		{
			"a DIMM goes to the cell with the least device memory",
			vm(t).dimm(256 * mi),
			2 * gi,
			2,
			nil,
			[]string{
				"wait until memory.max of pod and container is at least 2132Mi",
				"plug a DIMM of 768Mi into NUMA cell 1",
			},
		},
		{
			"shrink by virtio-mem",
			vm(t).virtioMem(2*gi, gi),
			gi + 256*mi,
			2,
			nil,
			[]string{
				"resize memory device virtiomem1 from 1Gi to 256Mi",
				"wait until memory.max of the container is at most 1395200Ki",
			},
		},
		{
			"shrink by DIMMs, the latest first",
			vm(t).dimm(256 * mi).dimm(512 * mi).passthrough(),
			gi,
			2,
			nil,
			[]string{
				"unplug dimm2, a DIMM of 512Mi",
				"unplug dimm1, a DIMM of 256Mi",
				"wait until memory.max of the container is at most 1106Mi",
				"lower QEMU's memory-lock limit from 2816Mi to 2Gi",
			},
		},
		{
			"more vCPUs, less bandwidth",
			vm(t),
			gi,
			4,
			half,
			[]string{
				"wait until memory.max of pod and container is at least 1122Mi",
				"change the CPU bandwidth of each vCPU from unlimited to 50ms per 100ms",
				"change the number of vCPUs from 2 to 4",
			},
		},
		{
			"fewer vCPUs, less bandwidth",
			vm(t),
			gi,
			1,
			half,
			[]string{
				"change the number of vCPUs from 2 to 1",
				"change the CPU bandwidth of each vCPU from unlimited to 50ms per 100ms",
				"wait until memory.max of the container is at most 1098Mi",
			},
		},
		{
			"more vCPUs and shares, less bandwidth",
			vmWithShares(t, 50),
			gi,
			4,
			half,
			[]string{
				"wait until memory.max of pod and container is at least 1122Mi",
				"change the CPU bandwidth of each vCPU from unlimited to 50ms per 100ms and the " +
					"CPU shares from 50 to 200",
				"change the number of vCPUs from 2 to 4",
			},
		},
		{
			"fewer shares",
			vmWithShares(t, 1024),
			gi,
			2,
			nil,
			[]string{
				"change the CPU shares from 1024 to 200",
				"wait until memory.max of the container is at most 1106Mi",
			},
		},
		{
			"more memory, fewer vCPUs",
			vm(t).virtioMem(2*gi, 0),
			2 * gi,
			1,
			nil,
			[]string{
				"wait until memory.max of pod and container is at least 2124Mi",
				"change the number of vCPUs from 2 to 1",
				"resize memory device virtiomem1 from 0 to 1Gi",
			},
		},
		{
			"less memory, more vCPUs",
			vm(t).virtioMem(2*gi, gi),
			gi,
			4,
			nil,
			[]string{
				"wait until memory.max of pod and container is at least 1122Mi",
				"resize memory device virtiomem1 from 1Gi to 0",
				"change the number of vCPUs from 2 to 4",
				"wait until memory.max of the container is at most 1122Mi",
			},
		},
		{
			"below the boot memory",
			vm(t).virtioMem(gi, 512*mi),
			512 * mi,
			2,
			nil,
			[]string{
				"resize memory device virtiomem1 from 512Mi to 0",
				"change the balloon from 1Gi to 512Mi for the guest",
				"wait until memory.max of the container is at most 593Mi",
			},
		},
	} {
		w := c.m.withLimits().target(c.memory, c.vcpus)
		w.Bandwidth = c.bandwidth
		if c.m.state.Bandwidth.Shares != defaultShares {
			w.CPUShares = 200
		}
		if c.memory == gi && len(c.want) == 0 {
			w.Limit = 0
		}
		plan, err := resize.MakePlan(observe(t, c.m), w, resize.Policy{Shrink: true, Balloon: true})
		if diff := cmp.Diff(c.want, descriptions(plan.Steps), cmpEmpty); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got)\n%s", c.name, err, diff)
		}
	}
}

// vmWithShares is a VM with other CPU shares.
func vmWithShares(t *testing.T, shares uint64) *model {
	return changedVM(t, func(m *model) { m.state.Bandwidth.Shares = shares })
}

var cmpEmpty = cmp.Transformer("empty", func(s []string) string { return strings.Join(s, "\n") })

// expectRefusal expects a refusal and returns it.
func expectRefusal(
	t *testing.T,
	is resize.Observed,
	w target.Target,
	p resize.Policy,
) *resize.Refusal {
	t.Helper()
	plan, err := resize.MakePlan(is, w, p)
	r, ok := errors.AsType[*resize.Refusal](err)
	if !ok {
		t.Fatalf("got %v, %v, want a refusal", descriptions(plan.Steps), err)
	}
	return r
}

func TestRefusalListsAllReasons(t *testing.T) {
	m := vm(t).dimm(128 * mi).withLimits()
	m.state.Phase, m.state.Migrating = virt.Paused, true
	m.state.Memory.Slots, m.state.Memory.Cells = 1, 0
	m.node.limits.Available = 4 * gi
	w := m.target(9*gi+1, 9)
	w.Limit = 8 * gi
	got := expectRefusal(t, observe(t, m), w, resize.Policy{MaxMemory: 6 * gi, MaxVCPUs: 3})
	var codes []resize.Code
	for _, r := range got.Reasons {
		codes = append(codes, r.Code)
	}
	want := []resize.Code{
		resize.Forbidden,
		resize.AboveMaximum,
		resize.NoSlot,
		resize.Alignment,
		resize.NoCell,
		resize.NoNodeMemory, // memory
		resize.Forbidden,
		resize.AboveMaximum, // vCPUs
		resize.OverLimit,
		resize.NotRunning,
		resize.Migrating,
	}
	if diff := cmp.Diff(want, codes); diff != "" {
		t.Errorf("%v (-want +got)\n%s", got, diff)
	}
}

// An NVDIMM is a disk to the guest and not part of its memory.
func TestNVDIMMIsNoMemory(t *testing.T) {
	m := vm(t).virtioMem(2*gi, gi)
	m.state.Memory.Devices = append(
		m.state.Memory.Devices, virt.MemoryDevice{Alias: "nvdimm0", Model: "nvdimm", Size: 2 * gi},
	)
	is := observe(t, m.withLimits())
	plan, err := resize.MakePlan(
		is, target.Target{Size: api.Size{Memory: 2 * gi}}, resize.Policy{Shrink: true},
	)
	if is.GuestMemory() != 2*gi || is.PossibleMemory() != 2*gi || err != nil ||
		len(plan.Steps) > 0 {
		t.Errorf(
			"the guest has %d, can have %d, plan %v, %v", is.GuestMemory(), is.PossibleMemory(),
			descriptions(plan.Steps), err,
		)
	}
}

// The memory-lock limit falls to libvirt's requirement, unless QEMU may need more than that.
func TestLockFallsToAKnownRequirement(t *testing.T) {
	is := observe(t, vm(t).passthrough().withLimits())
	is.Limits.Lock = 9 * gi
	for argument, want := range map[string]int{"": 1, "vfio-pci,host=03:00.0": 0} {
		is.Definition.Arguments = nil
		if argument != "" {
			is.Definition.Arguments = []string{argument}
		}
		plan, err := resize.MakePlan(is, vm(t).target(gi, 2), resize.Policy{})
		if err != nil {
			t.Fatal(err)
		}
		lowered := 0
		for _, s := range plan.Steps {
			if _, ok := s.(resize.LowerLock); ok {
				lowered++
			}
		}
		if lowered != want {
			t.Errorf("argument %q: %q lower the limit %d times, want %d", argument,
				descriptions(plan.Steps), lowered, want)
		}
	}
}
