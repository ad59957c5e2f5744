package resize

import (
	"slices"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/shim/resize/target"
	"github.com/mooring-vm/mooring/shim/virt"
)

// Plan is how a VM comes to be as it is wanted.
type Plan struct {
	Target target.Target
	Steps  Steps
	Notes  []string // for users: what is wanted and needs no step of ours
}

// MakePlan plans how a VM that is so comes to be as it is wanted. It is pure. A VM that
// is as it is wanted needs no steps. The error is a [*Refusal] with all that speaks
// against it.
func MakePlan(o Observed, t target.Target, p Policy) (Plan, error) {
	b := builder{observed: o, desired: t, policy: p.withDefaults(), definition: o.Definition}
	b.planMemory()
	b.planCPU()
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

	definition definition // as the steps leave it
	reasons    []Reason
	notes      []string

	awaitRaised, awaitLowered Steps // memory.max
	raiseLock, lowerLock      Steps // memory lock
	settle                    Steps // memory that the guest was asked for and has not taken or given
	grow, shrink              Steps // memory
	plug, unplug              Steps // vCPUs
	bandwidth                 Steps
	addedMemory               uint64 // bytes
}

// order is the one that the package describes: what gives comes before what takes, so
// that a VM is never larger than the larger of what it was and what it becomes, in no
// respect.
func (b *builder) ordered() Steps {
	if len(b.unplug) > 0 {
		return slices.Concat(b.awaitRaised, b.settle, b.unplug, b.bandwidth, b.shrink, b.raiseLock, b.grow, b.awaitLowered, b.lowerLock)
	}
	return slices.Concat(b.awaitRaised, b.settle, b.shrink, b.raiseLock, b.grow, b.bandwidth, b.plug, b.awaitLowered, b.lowerLock)
}

// general checks what holds for every change.
func (b *builder) checkGeneral(changes bool) {
	if !changes && len(b.reasons) == 0 {
		return
	}
	if phase := b.observed.Domain.Phase; phase != virt.Running {
		b.refuse(NotRunning, "the domain is %s: want it running", phase)
	}
	if b.observed.Domain.Migrating {
		b.refuse(Migrating, "the domain is being migrated: want that to end first")
	}
	if !b.policy.Shrink && len(b.shrink)+len(b.unplug) > 0 {
		b.refuse(Forbidden, "the node's policy does not allow a VM to shrink")
	}
	if room := b.observed.Limits.Available; b.addedMemory > room {
		b.refuse(NoNodeMemory, "the guest would have %s more, and the node has room for %s", formatBytes(b.addedMemory), formatBytes(room))
	}
}

// limits plans the waits for memory.max.
func (b *builder) planLimits() {
	limit, required := b.desired.Limit, b.desired.MemoryRequirement()
	if limit > 0 && required > limit {
		b.refuse(OverLimit, "memory: %s and %s beside it are more than the container's memory limit, which is %s",
			formatBytes(b.desired.GuestMemory()), formatBytes(b.desired.Overhead), formatBytes(limit))
	}
	if len(b.grow)+len(b.plug) > 0 && required > 0 {
		b.awaitRaised = Steps{AwaitRaisedLimit{AtLeast: required, Within: b.policy.Timeouts.RaisedLimit}}
	}
	if limit > 0 && b.observed.Limits.ContainerMax > limit {
		b.awaitLowered = Steps{AwaitLoweredLimit{AtMost: limit, Within: b.policy.Timeouts.LoweredLimit}}
	}
}

// then is the room for what is wanted, and before that for what there is: to undo a step
// must not make the VM larger than it was, in any respect, nor under lower limits.
func (b *builder) limitForDesired() SizeLimit {
	if b.desired.Memory == 0 {
		return SizeLimit{}
	}
	vcpus := b.desired.VCPUs
	if vcpus == 0 {
		vcpus = b.observed.Domain.VCPUs.Plugged
	}
	return SizeLimit{Max: b.desired.MemoryRequirement(), Memory: b.desired.GuestMemory(), VCPUs: vcpus}
}

func (b *builder) limitForObserved() SizeLimit {
	if b.desired.Memory == 0 {
		return SizeLimit{}
	}
	return SizeLimit{Max: b.observed.Limits.MemoryMax(), Memory: b.observed.PossibleMemory(), VCPUs: b.observed.Domain.VCPUs.Plugged}
}

// show prints bytes for people.
func formatBytes(n uint64) string {
	if n > 1<<63-1 {
		return "no limit"
	}
	return api.Bytes(n).String()
}
