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

// vm is a model of 1 GiB and 2 vCPUs in a container with memory to spare.
func vm(t *testing.T) *model {
	t.Helper()
	return newModel(gi, 8*gi, func(format string, args ...any) {
		t.Helper()
		t.Errorf(format, args...)
	})
}

// read reads what a model is.
func observe(t *testing.T, m *model) resize.Observed {
	t.Helper()
	is, err := resize.Read(context.Background(), m, agent{m})
	if err != nil {
		t.Fatal(err)
	}
	return is
}

// to is a wanted state with an overhead as large as the model's.
func (m *model) target(memory uint64, vcpus int) target.Target {
	overhead := m.overhead(memory, vcpus)
	return target.Target{Generation: 1, Size: api.Size{Memory: api.Bytes(memory), VCPUs: vcpus}, Overhead: overhead, Limit: memory + overhead}
}

// kinds names the steps of a plan in short.
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
		{"grow by virtio-mem", vm(t).virtioMem(2*gi, 0), 2 * gi, 2, nil, []string{
			"wait until the memory.max of pod and container are at least 2132Mi",
			"ask the guest to have 1Gi instead of 0 of its device virtiomem1",
		}},
		{"grow by two virtio-mem", vm(t).virtioMem(256*mi, 0).virtioMem(gi, 2*mi), gi + 512*mi, 2, nil, []string{
			"wait until the memory.max of pod and container are at least 1619Mi",
			"ask the guest to have 256Mi instead of 0 of its device virtiomem1",
			"ask the guest to have 256Mi instead of 2Mi of its device virtiomem2",
		}},
		{"grow by a DIMM, with a lock", vm(t).passthrough(), 2 * gi, 2, nil, []string{
			"wait until the memory.max of pod and container are at least 2132Mi",
			"raise the memory lock of QEMU from 2Gi to 3Gi",
			"plug a DIMM of 1Gi into NUMA cell 0",
		}},
		{"a DIMM goes to the emptiest cell", vm(t).dimm(256 * mi), 2 * gi, 2, nil, []string{
			"wait until the memory.max of pod and container are at least 2132Mi",
			"plug a DIMM of 768Mi into NUMA cell 1",
		}},
		{"shrink by virtio-mem", vm(t).virtioMem(2*gi, gi), gi + 256*mi, 2, nil, []string{
			"ask the guest to have 256Mi instead of 1Gi of its device virtiomem1",
			"wait until the memory.max of the container is 1395200Ki",
		}},
		{"shrink by DIMMs, the latest first", vm(t).dimm(256 * mi).dimm(512 * mi).passthrough(), gi, 2, nil, []string{
			"ask the guest to give back dimm2, a DIMM of 512Mi",
			"ask the guest to give back dimm1, a DIMM of 256Mi",
			"wait until the memory.max of the container is 1106Mi",
			"lower the memory lock of QEMU from 2816Mi to 2Gi",
		}},
		{"more vCPUs, less bandwidth", vm(t), gi, 4, half, []string{
			"wait until the memory.max of pod and container are at least 1122Mi",
			"let each vCPU run 50ms in 100ms instead of without a limit",
			"give the guest 4 vCPUs instead of 2",
		}},
		{"fewer vCPUs, less bandwidth", vm(t), gi, 1, half, []string{
			"give the guest 1 vCPUs instead of 2",
			"let each vCPU run 50ms in 100ms instead of without a limit",
			"wait until the memory.max of the container is 1098Mi",
		}},
		{"more vCPUs and shares, less bandwidth", vmWithShares(t, 50), gi, 4, half, []string{
			"wait until the memory.max of pod and container are at least 1122Mi",
			"let each vCPU run 50ms in 100ms instead of without a limit, and give the VM 200 CPU shares instead of 50",
			"give the guest 4 vCPUs instead of 2",
		}},
		{"fewer shares", vmWithShares(t, 1024), gi, 2, nil, []string{
			"give the VM 200 CPU shares instead of 1024",
			"wait until the memory.max of the container is 1106Mi",
		}},
		{"more memory, fewer vCPUs", vm(t).virtioMem(2*gi, 0), 2 * gi, 1, nil, []string{
			"wait until the memory.max of pod and container are at least 2124Mi",
			"give the guest 1 vCPUs instead of 2",
			"ask the guest to have 1Gi instead of 0 of its device virtiomem1",
		}},
		{"less memory, more vCPUs", vm(t).virtioMem(2*gi, gi), gi, 4, nil, []string{
			"wait until the memory.max of pod and container are at least 1122Mi",
			"ask the guest to have 0 instead of 1Gi of its device virtiomem1",
			"give the guest 4 vCPUs instead of 2",
			"wait until the memory.max of the container is 1122Mi",
		}},
		{"below what it booted with", vm(t).virtioMem(gi, 512*mi), 512 * mi, 2, nil, []string{
			"ask the guest to have 0 instead of 512Mi of its device virtiomem1",
			"let the balloon leave 512Mi instead of 1Gi to the guest",
			"wait until the memory.max of the container is 593Mi",
		}},
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

// weighed is a VM with other shares than usual.
func vmWithShares(t *testing.T, shares uint64) *model {
	return changedVM(t, func(m *model) { m.state.Bandwidth.Shares = shares })
}

var cmpEmpty = cmp.Transformer("empty", func(s []string) string { return strings.Join(s, "\n") })

// refusal is the error of a plan that has to be refused.
func expectRefusal(t *testing.T, is resize.Observed, w target.Target, p resize.Policy) *resize.Refusal {
	t.Helper()
	plan, err := resize.MakePlan(is, w, p)
	r, ok := errors.AsType[*resize.Refusal](err)
	if !ok {
		t.Fatalf("got %v, %v, want a refusal", descriptions(plan.Steps), err)
	}
	return r
}

// Every reason is told at once.
func TestRefusalListsAllReasons(t *testing.T) {
	m := vm(t).withLimits()
	m.state.Phase, m.state.Migrating, m.state.Memory.Slots, m.state.Memory.Cells = virt.Paused, true, 0, 0
	m.node.limits.Available = 4 * gi
	w := m.target(9*gi+1, 9)
	w.Limit = 8 * gi
	got := expectRefusal(t, observe(t, m), w, resize.Policy{MaxMemory: 6 * gi, MaxVCPUs: 3})
	var codes []resize.Code
	for _, r := range got.Reasons {
		codes = append(codes, r.Code)
	}
	want := []resize.Code{
		resize.Forbidden, resize.AboveMaximum, resize.NoSlot, resize.Alignment, resize.NoCell, // memory
		resize.Forbidden, resize.AboveMaximum, // vCPUs
		resize.OverLimit, resize.NotRunning, resize.Migrating, resize.NoNodeMemory,
	}
	if diff := cmp.Diff(want, codes); diff != "" {
		t.Errorf("%v (-want +got)\n%s", got, diff)
	}
}

// An NVDIMM is a disk to the guest: it is no part of the memory that is wanted.
func TestNVDIMMIsNoMemory(t *testing.T) {
	m := vm(t).virtioMem(2*gi, gi)
	m.state.Memory.Devices = append(m.state.Memory.Devices, virt.MemoryDevice{Alias: "nvdimm0", Model: "nvdimm", Size: 2 * gi})
	is := observe(t, m.withLimits())
	plan, err := resize.MakePlan(is, target.Target{Size: api.Size{Memory: 2 * gi}}, resize.Policy{Shrink: true})
	if is.GuestMemory() != 2*gi || is.PossibleMemory() != 2*gi || err != nil || len(plan.Steps) > 0 {
		t.Errorf("the guest has %d, can have %d, and is to do %v, %v", is.GuestMemory(), is.PossibleMemory(), descriptions(plan.Steps), err)
	}
}
