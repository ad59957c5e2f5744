package resize

import (
	"context"
	"fmt"
	"time"

	"github.com/mooring-vm/mooring/shim/virt"
)

// Step is one step of a plan: [AwaitRoom], [RaiseLock], [RequestMemory],
// [SettleMemory], [AttachDIMM], [DetachDIMM], [SetBalloon], [SetBandwidth],
// [SetVCPUs], [AwaitLimit] or [LowerLock]. A step is a value, and says for people
// what it does.
type Step interface {
	fmt.Stringer

	// Within is the most that it may take until it is confirmed.
	Within() time.Duration

	// ConfirmedBy tells what shows that it has taken place, and UndoneBy how it is
	// taken back, or why not.
	ConfirmedBy() string
	UndoneBy() string

	kind() kind

	// do gives the order. Whether it was carried out, done tells: its error is what is
	// missing.
	do(context.Context, hands, Is) error
	done(Is) error

	// undo returns what takes back what of it has taken place; nil: nothing, or
	// nothing can.
	undo(Is) Step
}

// hands are what steps act with.
type hands struct {
	domain virt.Domain
	node   Node
}

// checker is a step that needs more than a running domain to be begun.
type checker interface{ check(Is) error }

// check looks whether a step may be begun now.
func check(s Step, is Is) error {
	if c, ok := s.(checker); ok {
		if err := c.check(is); err != nil {
			return err
		}
	}
	return room(s, is)
}

// grower is a step by which the VM may become larger: room checks that the limits of the
// moment allow it.
type grower interface{ room(Is) error }

// room is looked for whenever an order is given, also again.
func room(s Step, is Is) error {
	if g, ok := s.(grower); ok {
		return g.room(is)
	}
	return nil
}

// leaver is a step of which something may have to be left as it is, although it is undone:
// without that the VM would be larger than it was. leaves tells of it.
type leaver interface{ leaves(Is) error }

func leaves(s Step, is Is) error {
	if l, ok := s.(leaver); ok {
		return l.leaves(is)
	}
	return nil
}

// closing reports whether a step follows when the VM is as it is wanted. Its failure
// undoes nothing.
func closing(s Step) bool {
	return s.kind() == kindAwaitLimit || s.kind() == kindLowerLock
}

// waits reports whether a step changes nothing.
func waits(s Step) bool {
	return s.kind() == kindAwaitLimit || s.kind() == kindAwaitRoom
}

// stops reports whether a step has the guest stay as it is, and not do later what it was
// asked for. That it is so already is no reason not to say it.
func stops(s Step) bool {
	b, ok := s.(SetBalloon)
	return ok && b.From == b.To
}

// absolute reports whether an order says what is to be, so that it may be given twice.
func absolute(s Step) bool {
	switch s.kind() {
	case kindSetVCPUs, kindSetBandwidth, kindRequestMemory, kindSetBalloon, kindRaiseLock, kindLowerLock:
		return true
	}
	return false
}

// Room is how large the VM may be: with a memory.max of at least Max it may have so
// much Memory, in bytes, and so many VCPUs. The zero value allows all: no memory limit
// is known.
type Room struct {
	Max    uint64 `json:"max"`
	Memory uint64 `json:"memory"`
	VCPUs  int    `json:"vcpus"`
}

// check checks that a VM of that size may be.
func (r Room) check(is Is, memory uint64, vcpus int) error {
	switch {
	case r == Room{}:
		return nil
	case memory > r.Memory:
		return fmt.Errorf("the guest would have %s: want at most %s", show(memory), show(r.Memory))
	case vcpus > r.VCPUs:
		return fmt.Errorf("the guest would have %d vCPUs: want at most %d", vcpus, r.VCPUs)
	}
	return fits(is, r.Max)
}

// fits checks that the container may have what the VM needs.
func fits(is Is, need uint64) error {
	if is.Seen.Max() < need {
		return fmt.Errorf("memory.max of the pod is %s and that of the container %s: want at least %s",
			show(is.Seen.PodMax), show(is.Seen.ContainerMax), show(need))
	}
	return nil
}
