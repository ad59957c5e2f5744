package resize_test

import (
	"strings"
	"testing"
	"time"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/shim/resize"
	"github.com/mooring-vm/mooring/shim/resize/target"
	"github.com/mooring-vm/mooring/shim/virt"
)

func TestRefusals(t *testing.T) {
	allowed := resize.Policy{Shrink: true}
	for _, c := range []struct {
		name   string
		m      *model
		change func(*model)
		memory uint64
		vcpus  int
		policy resize.Policy
		code   resize.Code
		want   string
	}{
		{"more than maxMemory", vm(t), nil, 9 * gi, 2, allowed, resize.AboveMaximum, "9Gi is more than the <maxMemory> of the domain, which is 8Gi"},
		{"DIMMs count for maxMemory", vm(t).dimm(4 * gi), nil, 8*gi + 128*mi, 2, allowed, resize.AboveMaximum, "more than the <maxMemory>"},
		{"more than virtio-mem has", vm(t).virtioMem(gi, 0), nil, 3 * gi, 2, allowed, resize.AboveMaximum, "room for, which is 2Gi"},
		{"more vCPUs than there can be", vm(t), nil, gi, 9, allowed, resize.AboveMaximum, "vCPUs: 9 are more than the domain can have, which is 8"},
		{"a DIMM of part of a block", vm(t), nil, gi + 100*mi, 2, allowed, resize.Alignment, "1124Mi is no multiple of the 128Mi that DIMMs come in above what it has: want 1Gi or 1152Mi"},
		{"a part of a virtio-mem block", vm(t).virtioMem(gi, 0), nil, gi + 3*mi, 2, allowed, resize.Alignment, "want 1026Mi or 1028Mi"},
		{"a part of a DIMM to shrink by", vm(t).dimm(512 * mi).dimm(256 * mi), nil, gi + 256*mi, 2, allowed, resize.Alignment, "1280Mi is no size that the guest can shrink to by giving devices back: want 1536Mi, 1Gi"},
		{"a part of a block to shrink by", vm(t).virtioMem(gi, 512*mi), nil, gi + 3*mi, 2, allowed, resize.Alignment, "1Gi or more in whole blocks"},
		{"no free slot", vm(t).dimm(128 * mi), func(m *model) { m.state.Memory.Slots = 1 }, 2 * gi, 2, allowed, resize.NoSlot, "all 1 memory slots of the domain are used"},
		{"no maxMemory", vm(t), func(m *model) { m.state.Memory.Maximum = 0 }, 2 * gi, 2, allowed, resize.NotPrepared, "was not prepared for more memory"},
		{"no vCPUs to plug", vm(t), func(m *model) { m.state.VCPUs.Boot, m.state.VCPUs.Maximum = 2, 2 }, gi, 3, allowed, resize.NotPrepared, "not prepared for more"},
		{"no NUMA cell", vm(t), func(m *model) { m.state.Memory.Cells = 0 }, 2 * gi, 2, allowed, resize.NoCell, "no NUMA cell for a DIMM"},
		{"below boot, no balloon allowed", vm(t), nil, 512 * mi, 2, allowed, resize.BelowBoot, "booted with, which is 1Gi, and the node's policy allows no balloon"},
		{"below boot, no balloon", vm(t), func(m *model) { m.state.Memory.Ballooned = false }, 512 * mi, 2, allowed, resize.BelowBoot, "it has no balloon"},
		{"a balloon with a VFIO device", vm(t).passthrough(), nil, 512 * mi, 2, resize.Policy{Shrink: true, Balloon: true}, resize.BelowBoot, "devices pin the guest's memory"},
		{"fewer vCPUs than can be unplugged", vm(t), func(m *model) { m.state.VCPUs.Boot = 2 }, gi, 1, allowed, resize.BelowBoot, "1 are less than the 2 of the domain that cannot be unplugged"},
		{"migration", vm(t).virtioMem(gi, 0), func(m *model) { m.state.Migrating = true }, 2 * gi, 2, allowed, resize.Migrating, "being migrated"},
		{"paused", vm(t).virtioMem(gi, 0), func(m *model) { m.state.Phase = virt.Paused }, 2 * gi, 2, allowed, resize.NotRunning, "the domain is paused"},
		{"shrink memory", vm(t).virtioMem(gi, gi), nil, gi, 2, resize.Policy{}, resize.Forbidden, "does not allow a VM to shrink"},
		{"shrink vCPUs", vm(t), nil, gi, 1, resize.Policy{}, resize.Forbidden, "does not allow a VM to shrink"},
		{"policy on memory", vm(t).virtioMem(gi, 0), nil, 2 * gi, 2, resize.Policy{MaxMemory: 2*gi - 1}, resize.Forbidden, "2Gi is more than the node's policy allows"},
		{"policy on vCPUs", vm(t), nil, gi, 5, resize.Policy{MaxVCPUs: 4}, resize.Forbidden, "5 are more than the node's policy allows, which is 4"},
		{"room", vm(t).virtioMem(gi, 0), func(m *model) { m.node.limits.Available = 512 * mi }, 2 * gi, 2, allowed, resize.NoNodeMemory, "would have 1Gi more, and the node has room for 512Mi"},
	} {
		c.m.withLimits()
		if c.change != nil {
			c.change(c.m)
		}
		got := expectRefusal(t, observe(t, c.m), c.m.target(c.memory, c.vcpus), c.policy)
		if len(got.Reasons) != 1 || !got.Has(c.code) || !strings.Contains(got.Error(), c.want) {
			t.Errorf("%s: got %v %q, want %v %q alone", c.name, got.Reasons, got, c.code, c.want)
		}
	}
}

// A VM that already has more than policy allows may keep it.
func TestPolicyIsNoReasonToShrink(t *testing.T) {
	m := vm(t).virtioMem(2*gi, gi).withLimits()
	w := m.target(2*gi, 2)
	plan, err := resize.MakePlan(observe(t, m), w, resize.Policy{MaxMemory: gi, MaxVCPUs: 1})
	if err != nil || len(plan.Steps) > 1 {
		t.Errorf("got %v, %v", descriptions(plan.Steps), err)
	}
}

// Where libvirt cannot hold vCPUs to a bandwidth, the container's own CPU limit does.
func TestContainerBandwidth(t *testing.T) {
	m := vm(t).withLimits()
	m.state.Bandwidth.Supported = false
	w := target.Target{Bandwidth: &target.Bandwidth{Period: 100 * time.Millisecond, Quota: 50 * time.Millisecond, FromLimit: true}}
	plan, err := resize.MakePlan(observe(t, m), w, resize.Policy{})
	if err != nil || len(plan.Steps) > 0 || len(plan.Notes) != 1 {
		t.Errorf("got %v, %v", plan, err)
	}
	w.Bandwidth.FromLimit = false
	for vcpus, help := range map[int]string{0: "want that to be 1000m", 3: "want that to be 1500m"} {
		w.VCPUs = vcpus
		if got := expectRefusal(t, observe(t, m), w, resize.Policy{}); !got.Has(resize.NoBandwidth) || !strings.Contains(got.Error(), help) {
			t.Errorf("for %d vCPUs: got %v, want %s", vcpus, got, help)
		}
	}
	w = target.Target{Size: api.Size{VCPUs: 1}, Bandwidth: &target.Bandwidth{Period: 100008 * time.Microsecond, Quota: 41670 * time.Microsecond}}
	if got := expectRefusal(t, observe(t, m), w, resize.Policy{}); !strings.Contains(got.Error(), "want that to be 417m") {
		t.Errorf("got %v", got)
	}
	w = target.Target{Bandwidth: &target.Bandwidth{Period: 100 * time.Millisecond, Quota: virt.Unlimited}}
	if plan, err := resize.MakePlan(observe(t, m), w, resize.Policy{}); err != nil || len(plan.Steps) > 0 {
		t.Errorf("without a limit of their own, which they have not: got %v, %v", plan, err)
	}
}

// That limit says nothing of the weight against others.
func TestContainerShares(t *testing.T) {
	for name, unable := range map[string]func(*model){
		"no CPU controller":  func(m *model) { m.state.Bandwidth.Supported = false },
		"no shares are told": func(m *model) { m.state.Bandwidth.Shares = 0 },
	} {
		m := changedVM(t, unable).withLimits()
		w := target.Target{Size: api.Size{CPUShares: 200}}
		got := expectRefusal(t, observe(t, m), w, resize.Policy{})
		if len(got.Reasons) != 1 || !got.Has(resize.NoShares) || !strings.Contains(got.Error(), "CPU shares: this libvirt cannot change them") {
			t.Errorf("%s: got %v", name, got)
		}
		w.Bandwidth = &target.Bandwidth{Period: 100 * time.Millisecond, Quota: 50 * time.Millisecond, FromLimit: true}
		if got := expectRefusal(t, observe(t, m), w, resize.Policy{}); len(got.Reasons) != 1 || !got.Has(resize.NoShares) {
			t.Errorf("%s, with a bandwidth of the limit: got %v", name, got)
		}
	}
}
