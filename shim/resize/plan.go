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
func MakePlan(is Is, t target.Target, p Policy) (Plan, error) {
	b := builder{is: is, want: t, policy: p.withDefaults(), after: is.Definition}
	b.memory()
	b.cpu()
	b.lock()
	b.limits()
	steps := b.order()
	b.general(len(steps) > 0)
	if len(b.reasons) > 0 {
		return Plan{}, &Refusal{b.reasons}
	}
	return Plan{Target: t, Steps: steps, Notes: b.notes}, nil
}

// builder makes one plan.
type builder struct {
	is     Is
	want   target.Target
	policy Policy

	after   definition // as the steps leave it
	reasons []Reason
	notes   []string

	room, limit  Steps // memory.max
	raise, lower Steps // memory lock
	settled      Steps // memory that the guest was asked for and has not taken or given
	take, give   Steps // memory
	plug, unplug Steps // vCPUs
	bandwidth    Steps
	takes        uint64 // bytes
}

// order is the one that the package describes: what gives comes before what takes, so
// that a VM is never larger than the larger of what it was and what it becomes, in no
// respect.
func (b *builder) order() Steps {
	if len(b.unplug) > 0 {
		return slices.Concat(b.room, b.settled, b.unplug, b.bandwidth, b.give, b.raise, b.take, b.limit, b.lower)
	}
	return slices.Concat(b.room, b.settled, b.give, b.raise, b.take, b.bandwidth, b.plug, b.limit, b.lower)
}

// general checks what holds for every change.
func (b *builder) general(changes bool) {
	if !changes && len(b.reasons) == 0 {
		return
	}
	if phase := b.is.Domain.Phase; phase != virt.Running {
		b.refuse(NotRunning, "the domain is %s: want it running", phase)
	}
	if b.is.Domain.Migrating {
		b.refuse(Migrating, "the domain is being migrated: want that to end first")
	}
	if !b.policy.Shrink && len(b.give)+len(b.unplug) > 0 {
		b.refuse(Forbidden, "the node's policy does not allow a VM to shrink")
	}
	if room := b.is.Seen.Room; b.takes > room {
		b.refuse(NoRoom, "the guest would have %s more, and the node has room for %s", show(b.takes), show(room))
	}
}

// limits plans the waits for memory.max.
func (b *builder) limits() {
	limit, need := b.want.Limit, b.want.MemoryRequirement()
	if limit > 0 && need > limit {
		b.refuse(OverLimit, "memory: %s and %s beside it are more than the container's memory limit, which is %s",
			show(b.want.GuestMemory()), show(b.want.Overhead), show(limit))
	}
	if len(b.take)+len(b.plug) > 0 && need > 0 {
		b.room = Steps{AwaitRoom{Need: need, Bound: b.policy.Bounds.Room}}
	}
	if limit > 0 && b.is.Seen.ContainerMax > limit {
		b.limit = Steps{AwaitLimit{Limit: limit, Bound: b.policy.Bounds.Limit}}
	}
}

// then is the room for what is wanted, and before that for what there is: to undo a step
// must not make the VM larger than it was, in any respect, nor under lower limits.
func (b *builder) then() Room {
	if b.want.Memory == 0 {
		return Room{}
	}
	vcpus := b.want.VCPUs
	if vcpus == 0 {
		vcpus = b.is.Domain.VCPUs.Plugged
	}
	return Room{Max: b.want.MemoryRequirement(), Memory: b.want.GuestMemory(), VCPUs: vcpus}
}

func (b *builder) before() Room {
	if b.want.Memory == 0 {
		return Room{}
	}
	return Room{Max: b.is.Seen.Max(), Memory: b.is.Possible(), VCPUs: b.is.Domain.VCPUs.Plugged}
}

// show prints bytes for people.
func show(n uint64) string {
	if n > 1<<63-1 {
		return "no limit"
	}
	return api.Bytes(n).String()
}
