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
	Timeout() time.Duration

	// ConfirmedBy tells what shows that it has taken place, and UndoneBy how it is
	// taken back, or why not.
	ConfirmedBy() string
	RollbackMethod() string

	kind() kind

	// do gives the order. Whether it was carried out, done tells: its error is what is
	// missing.
	execute(context.Context, handles, Observed) error
	verify(Observed) error

	// undo returns what takes back what of it has taken place; nil: nothing, or
	// nothing can.
	rollback(Observed) Step
}

// hands are what steps act with.
type handles struct {
	domain virt.Domain
	node   Node
}

// checker is a step that needs more than a running domain to be begun.
type preconditioned interface{ checkStart(Observed) error }

// check looks whether a step may be begun now.
func checkBeforeStart(s Step, o Observed) error {
	if c, ok := s.(preconditioned); ok {
		if err := c.checkStart(o); err != nil {
			return err
		}
	}
	return checkLimits(s, o)
}

// grower is a step by which the VM may become larger: room checks that the limits of the
// moment allow it.
type grower interface{ checkLimits(Observed) error }

// room is looked for whenever an order is given, also again.
func checkLimits(s Step, o Observed) error {
	if g, ok := s.(grower); ok {
		return g.checkLimits(o)
	}
	return nil
}

// leaver is a step of which something may have to be left as it is, although it is undone:
// without that the VM would be larger than it was. leaves tells of it.
type incompleteRollback interface{ notRolledBack(Observed) error }

func notRolledBack(s Step, o Observed) error {
	if l, ok := s.(incompleteRollback); ok {
		return l.notRolledBack(o)
	}
	return nil
}

// closing reports whether a step follows when the VM is as it is wanted. Its failure
// undoes nothing.
func isClosing(s Step) bool {
	return s.kind() == kindAwaitLoweredLimit || s.kind() == kindLowerLock
}

// waits reports whether a step changes nothing.
func isWait(s Step) bool {
	return s.kind() == kindAwaitLoweredLimit || s.kind() == kindAwaitRaisedLimit
}

// stops reports whether a step has the guest stay as it is, and not do later what it was
// asked for. That it is so already is no reason not to say it.
func stopsBalloon(s Step) bool {
	b, ok := s.(SetBalloon)
	return ok && b.From == b.To
}

// absolute reports whether an order says what is to be, so that it may be given twice.
func isRepeatable(s Step) bool {
	switch s.kind() {
	case kindSetVCPUs, kindSetBandwidth, kindRequestMemory, kindSetBalloon, kindRaiseLock, kindLowerLock:
		return true
	}
	return false
}

// Room is how large the VM may be: with a memory.max of at least Max it may have so
// much Memory, in bytes, and so many VCPUs. The zero value allows all: no memory limit
// is known.
type SizeLimit struct {
	Max    uint64 `json:"max"`
	Memory uint64 `json:"memory"`
	VCPUs  int    `json:"vcpus"`
}

// check checks that a VM of that size may be.
func (r SizeLimit) allows(o Observed, memory uint64, vcpus int) error {
	switch {
	case r == SizeLimit{}:
		return nil
	case memory > r.Memory:
		return fmt.Errorf("the guest would have %s: want at most %s", formatBytes(memory), formatBytes(r.Memory))
	case vcpus > r.VCPUs:
		return fmt.Errorf("the guest would have %d vCPUs: want at most %d", vcpus, r.VCPUs)
	}
	return checkMemoryMax(o, r.Max)
}

// fits checks that the container may have what the VM needs.
func checkMemoryMax(o Observed, need uint64) error {
	if o.Limits.MemoryMax() < need {
		return fmt.Errorf("memory.max of the pod is %s and that of the container %s: want at least %s",
			formatBytes(o.Limits.PodMax), formatBytes(o.Limits.ContainerMax), formatBytes(need))
	}
	return nil
}
