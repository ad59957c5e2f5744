package resize

import (
	"slices"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/shim/resize/target"
	"github.com/mooring-vm/mooring/shim/virt"
)

// Plan is the list of steps to a target.
type Plan struct {
	Target target.Target
	Steps  Steps
	Notes  []string // facts for users about parts of the target without a step
}

// MakePlan plans the steps from the observed state to a target. It is pure. A VM at the target
// needs no steps. The plan leaves out a dimension that follows the limits and is impossible, with a
// note. The error is a [*Refusal] with all reasons.
func MakePlan(o Observed, t target.Target, p Policy) (Plan, error) {
	b := builder{observed: o, desired: t, policy: p.withDefaults(), definition: o.Definition}
	b.notes = slices.Clone(t.Notes)
	b.planMemory()
	memoryReasons := len(b.reasons)
	b.planCPU()
	possible, changed := leaveOut(t, b.reasons[:memoryReasons], b.reasons[memoryReasons:])
	if changed {
		return MakePlan(o, possible, p)
	}
	b.planLock()
	b.planLimits()
	steps := b.ordered()
	b.checkGeneral(len(steps) > 0)
	if len(b.reasons) > 0 {
		return Plan{}, &Refusal{b.reasons}
	}
	return Plan{Target: t, Steps: steps, Notes: b.notes}, nil
}

// builder makes one plan.
type builder struct {
	observed Observed
	desired  target.Target
	policy   Policy

	definition definition // after the steps
	reasons    []Reason
	notes      []string

	awaitRaised, awaitLowered Steps // memory.max
	raiseLock, lowerLock      Steps
	settle                    Steps // virtio-mem with an unfinished request
	grow, shrink              Steps // memory
	plug, unplug              Steps // vCPUs
	bandwidth                 Steps
}

// leaveOut returns the target without impossible dimensions that follow the limits. Their reasons
// become notes. changed is false if there are none.
func leaveOut(t target.Target, memory, cpu []Reason) (possible target.Target, changed bool) {
	var reasons []Reason
	if t.Follows.Memory {
		reasons = memory
	}
	if len(reasons) > 0 {
		t.Memory, t.Follows.Memory = 0, false
	}
	if t.Follows.VCPUs && len(cpu) > 0 {
		reasons = slices.Concat(reasons, cpu)
		t.VCPUs, t.Follows.VCPUs = 0, false
		if t.CPUQuota == (api.CPUQuota{}) {
			t.Bandwidth = nil // the limit's, for the number of vCPUs
		}
	}
	t.Notes = slices.Clone(t.Notes)
	for _, r := range reasons {
		t.Notes = append(t.Notes, r.Text)
	}
	return t, len(reasons) > 0
}

// checkShrink refuses shrinking steps if the policy forbids them.
func (b *builder) checkShrink(steps Steps) {
	if !b.policy.Shrink && len(steps) > 0 {
		b.refuse(Forbidden, "the node's policy does not allow a VM to shrink")
	}
}

// ordered puts the steps into the order of the package documentation. Shrinking precedes growing,
// so that no resource exceeds the larger of its old and its new value.
func (b *builder) ordered() Steps {
	if len(b.unplug) > 0 {
		return slices.Concat(
			b.awaitRaised, b.settle, b.unplug, b.bandwidth, b.shrink, b.raiseLock, b.grow,
			b.awaitLowered, b.lowerLock,
		)
	}
	return slices.Concat(
		b.awaitRaised, b.settle, b.shrink, b.raiseLock, b.grow, b.bandwidth, b.plug, b.awaitLowered,
		b.lowerLock,
	)
}

// checkGeneral checks the conditions of every change.
func (b *builder) checkGeneral(changes bool) {
	if !changes && len(b.reasons) == 0 {
		return
	}
	if phase := b.observed.Domain.Phase; phase != virt.Running {
		b.refuse(NotRunning, "the domain is %s: want a running domain", phase)
	}
	if b.observed.Domain.Migrating {
		b.refuse(Migrating, "the domain is being migrated: resize it after the migration")
	}
}

// planLimits plans the waits for memory.max.
func (b *builder) planLimits() {
	limit, required := b.desired.Limit, b.desired.MemoryRequirement()
	if limit > 0 && required > limit {
		b.refuse(
			OverLimit,
			"memory: %s for the guest and %s overhead exceed the container's memory limit, %s",
			formatBytes(
				b.desired.GuestMemory(),
			),
			formatBytes(b.desired.Overhead),
			formatBytes(limit),
		)
	}
	if len(b.grow)+len(b.plug) > 0 && required > 0 {
		b.awaitRaised = Steps{
			AwaitRaisedLimit{AtLeast: required, Within: b.policy.Timeouts.RaisedLimit},
		}
	}
	if limit > 0 && b.observed.Limits.ContainerMax > limit {
		b.awaitLowered = Steps{
			AwaitLoweredLimit{AtMost: limit, Within: b.policy.Timeouts.LoweredLimit},
		}
	}
}

// limitForDesired is the limit for steps towards the target. limitForObserved is the limit for
// shrinking steps, whose rollback must exceed neither the old size nor lowered limits.
func (b *builder) limitForDesired() SizeLimit {
	if b.desired.Memory == 0 {
		return SizeLimit{}
	}
	vcpus := b.desired.VCPUs
	if vcpus == 0 {
		vcpus = b.observed.Domain.VCPUs.Plugged
	}
	return SizeLimit{
		Max:    b.desired.MemoryRequirement(),
		Memory: b.desired.GuestMemory(),
		VCPUs:  vcpus,
	}
}

func (b *builder) limitForObserved() SizeLimit {
	if b.desired.Memory == 0 {
		return SizeLimit{}
	}
	return SizeLimit{
		Max:    b.observed.Limits.MemoryMax(),
		Memory: b.observed.PossibleMemory(),
		VCPUs:  b.observed.Domain.VCPUs.Plugged,
	}
}

// formatBytes formats an amount for messages.
func formatBytes(n uint64) string {
	if n > 1<<63-1 {
		return "unlimited"
	}
	return api.Bytes(n).String()
}
