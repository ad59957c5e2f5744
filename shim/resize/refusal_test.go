package resize_test

import (
	"slices"
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
		{
			"more than maxMemory",
			vm(t),
			nil,
			9 * gi,
			2,
			allowed,
			resize.AboveMaximum,
			"9Gi exceeds the domain's <maxMemory>, 8Gi",
		},
		{
			"DIMMs count for maxMemory",
			vm(t).dimm(4 * gi),
			nil,
			8*gi + 128*mi,
			2,
			allowed,
			resize.AboveMaximum,
			"exceeds the domain's <maxMemory>",
		},
		{
			"more than virtio-mem has",
			vm(t).virtioMem(gi, 0),
			nil,
			3 * gi,
			2,
			allowed,
			resize.AboveMaximum,
			"exceeds the capacity of the guest's virtio-mem devices, 2Gi",
		},
		{
			"more vCPUs than the maximum",
			vm(t),
			nil,
			gi,
			9,
			allowed,
			resize.AboveMaximum,
			"vCPUs: 9 exceed the domain's maximum, 8",
		},
		{
			"a DIMM of part of a block",
			vm(t),
			nil,
			gi + 100*mi,
			2,
			allowed,
			resize.Alignment,
			"1124Mi is not possible in steps of 128Mi: want 1Gi or 1152Mi",
		},
		{
			"a part of a virtio-mem block", vm(t).virtioMem(gi, 0), nil, gi + 3*mi, 2, allowed,
			resize.Alignment, "want 1026Mi or 1028Mi",
		},
		{
			"a part of a DIMM to shrink by",
			vm(t).dimm(512 * mi).dimm(256 * mi),
			nil,
			gi + 256*mi,
			2,
			allowed,
			resize.Alignment,
			"1280Mi is not possible with the guest's devices: want 1536Mi, 1Gi",
		},
		{
			"a part of a block to shrink by",
			vm(t).virtioMem(gi, 512*mi),
			nil,
			gi + 3*mi,
			2,
			allowed,
			resize.Alignment,
			"1Gi or more in whole virtio-mem blocks",
		},
		{"no free slot", vm(t).dimm(128 * mi), func(m *model) {
			m.state.Memory.Slots = 1
		}, 2 * gi, 2, allowed, resize.NoSlot, "all 1 memory slots of the domain are in use"},
		{"no maxMemory", vm(t), func(m *model) {
			m.state.Memory.Maximum = 0
		}, 2 * gi, 2, allowed, resize.NotPrepared, "memory: the domain has no headroom"},
		{"no vCPUs to plug", vm(t), func(m *model) {
			m.state.VCPUs.Boot, m.state.VCPUs.Maximum = 2, 2
		}, gi, 3, allowed, resize.NotPrepared, "vCPUs: the domain has no headroom"},
		{"no NUMA cell", vm(t), func(m *model) {
			m.state.Memory.Cells = 0
		}, 2 * gi, 2, allowed, resize.NoCell, "a DIMM needs a NUMA cell"},
		{
			"below boot, no balloon allowed",
			vm(t),
			nil,
			512 * mi,
			2,
			allowed,
			resize.BelowBoot,
			"below the boot memory, 1Gi, and the node's policy allows no balloon",
		},
		{"below boot, no balloon", vm(t), func(m *model) {
			m.state.Memory.Ballooned = false
		}, 512 * mi, 2, allowed, resize.BelowBoot, "the guest has no balloon"},
		{
			"a balloon with a VFIO device",
			vm(t).passthrough(),
			nil,
			512 * mi,
			2,
			resize.Policy{Shrink: true, Balloon: true},
			resize.BelowBoot,
			"devices pin the guest's memory",
		},
		{"fewer vCPUs than can be unplugged", vm(t), func(m *model) {
			m.state.VCPUs.Boot = 2
		}, gi, 1, allowed, resize.BelowBoot, "1 are below the 2 that cannot be unplugged"},
		{"migration", vm(t).virtioMem(gi, 0), func(m *model) {
			m.state.Migrating = true
		}, 2 * gi, 2, allowed, resize.Migrating, "being migrated"},
		{"paused", vm(t).virtioMem(gi, 0), func(m *model) {
			m.state.Phase = virt.Paused
		}, 2 * gi, 2, allowed, resize.NotRunning, "the domain is paused"},
		{
			"shrink memory", vm(t).virtioMem(gi, gi), nil, gi, 2, resize.Policy{}, resize.Forbidden,
			"does not allow a VM to shrink",
		},
		{
			"shrink vCPUs", vm(t), nil, gi, 1, resize.Policy{}, resize.Forbidden,
			"does not allow a VM to shrink",
		},
		{
			"policy on memory",
			vm(t).virtioMem(gi, 0),
			nil,
			2 * gi,
			2,
			resize.Policy{MaxMemory: 2*gi - 1},
			resize.Forbidden,
			"2Gi exceeds the maximum of the node's policy",
		},
		{
			"policy on vCPUs",
			vm(t),
			nil,
			gi,
			5,
			resize.Policy{MaxVCPUs: 4},
			resize.Forbidden,
			"5 exceed the maximum of the node's policy, 4",
		},
		{
			"node memory",
			vm(t).virtioMem(gi, 0),
			func(m *model) { m.node.limits.Available = 512 * mi },
			2 * gi,
			2,
			allowed,
			resize.NoNodeMemory,
			"would get 1Gi more, and the node has only 512Mi available",
		},
	} {
		c.m.withLimits()
		if c.change != nil {
			c.change(c.m)
		}
		got := expectRefusal(t, observe(t, c.m), c.m.target(c.memory, c.vcpus), c.policy)
		if len(got.Reasons) != 1 || !hasCode(got, c.code) ||
			!strings.Contains(got.Error(), c.want) {
			t.Errorf("%s: got %v %q, want %v %q alone", c.name, got.Reasons, got, c.code, c.want)
		}
	}
}

// A VM that already exceeds the policy may keep its size.
func TestPolicyIsNoReasonToShrink(t *testing.T) {
	m := vm(t).virtioMem(2*gi, gi).withLimits()
	w := m.target(2*gi, 2)
	plan, err := resize.MakePlan(observe(t, m), w, resize.Policy{MaxMemory: gi, MaxVCPUs: 1})
	if err != nil || len(plan.Steps) > 1 {
		t.Errorf("got %v, %v", descriptions(plan.Steps), err)
	}
}

// If libvirt cannot limit the bandwidth, the container's CPU limit applies.
func TestContainerBandwidth(t *testing.T) {
	m := vm(t).withLimits()
	m.state.Bandwidth.Supported = false
	w := target.Target{
		Bandwidth: &target.Bandwidth{
			Period:    100 * time.Millisecond,
			Quota:     50 * time.Millisecond,
			FromLimit: true,
		},
	}
	plan, err := resize.MakePlan(observe(t, m), w, resize.Policy{})
	if err != nil || len(plan.Steps) > 0 || len(plan.Notes) != 1 {
		t.Errorf("got %v, %v", plan, err)
	}
	w.Bandwidth.FromLimit = false
	for vcpus, help := range map[int]string{0: "CPU limit to 1000m", 3: "CPU limit to 1500m"} {
		w.VCPUs = vcpus
		got := expectRefusal(t, observe(t, m), w, resize.Policy{})
		if !hasCode(got, resize.NoBandwidth) || !strings.Contains(got.Error(), help) {
			t.Errorf("for %d vCPUs: got %v, want %s", vcpus, got, help)
		}
	}
	w = target.Target{
		Size: api.Size{VCPUs: 1},
		Bandwidth: &target.Bandwidth{
			Period: 100008 * time.Microsecond,
			Quota:  41670 * time.Microsecond,
		},
	}
	got := expectRefusal(t, observe(t, m), w, resize.Policy{})
	if !strings.Contains(got.Error(), "CPU limit to 417m") {
		t.Errorf("got %v", got)
	}
	w = target.Target{
		Bandwidth: &target.Bandwidth{Period: 100 * time.Millisecond, Quota: virt.Unlimited},
	}
	plan, err = resize.MakePlan(observe(t, m), w, resize.Policy{})
	if err != nil || len(plan.Steps) > 0 {
		t.Errorf("unlimited as before: got %v, %v", plan, err)
	}
}

// The container's CPU limit does not affect the weight.
func TestContainerShares(t *testing.T) {
	for name, unable := range map[string]func(*model){
		"no CPU controller": func(m *model) { m.state.Bandwidth.Supported = false },
		"unknown shares":    func(m *model) { m.state.Bandwidth.Shares = 0 },
	} {
		m := changedVM(t, unable).withLimits()
		w := target.Target{Size: api.Size{CPUShares: 200}}
		got := expectRefusal(t, observe(t, m), w, resize.Policy{})
		if len(got.Reasons) != 1 || !hasCode(got, resize.NoShares) ||
			!strings.Contains(got.Error(), "CPU shares: this libvirt cannot change them") {
			t.Errorf("%s: got %v", name, got)
		}
		w.Bandwidth = &target.Bandwidth{
			Period:    100 * time.Millisecond,
			Quota:     50 * time.Millisecond,
			FromLimit: true,
		}
		got = expectRefusal(t, observe(t, m), w, resize.Policy{})
		if len(got.Reasons) != 1 || !hasCode(got, resize.NoShares) {
			t.Errorf("%s, with a bandwidth of the limit: got %v", name, got)
		}
	}
}

func hasCode(r *resize.Refusal, c resize.Code) bool {
	return slices.ContainsFunc(
		r.Reasons, func(reason resize.Reason) bool { return reason.Code == c },
	)
}
