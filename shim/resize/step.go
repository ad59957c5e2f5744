package resize

import (
	"context"
	"fmt"
	"time"

	"github.com/mooring-vm/mooring/shim/virt"
)

// Step is one step of a plan: [AwaitRaisedLimit], [RaiseLock], [RequestMemory], [SettleMemory],
// [AttachVirtioMem], [AttachDIMM], [DetachDIMM], [SetBalloon], [SetBandwidth], [SetVCPUs],
// [AwaitLoweredLimit] or [LowerLock]. A step is a value. Its String describes it to users.
type Step interface {
	fmt.Stringer

	// Timeout is the maximum time without progress until the confirmation.
	Timeout() time.Duration

	kind() kind

	// execute makes the call. verify returns nil if the step has taken effect, or an error that
	// names the difference.
	execute(context.Context, handles, Observed) error
	verify(Observed) error

	// rollback returns the step that reverts the effect; nil: no effect to revert, or no way to do
	// it.
	rollback(Observed) Step
}

// handles are the interfaces that steps act on.
type handles struct {
	domain virt.Domain
	node   Node
}

// preconditioned is a step with conditions beyond a running domain.
type preconditioned interface{ checkStart(Observed) error }

// checkBeforeStart checks that a step may start now.
func checkBeforeStart(s Step, o Observed) error {
	if c, ok := s.(preconditioned); ok {
		if err := c.checkStart(o); err != nil {
			return err
		}
	}
	return checkLimits(s, o)
}

// grower is a step that may make the VM larger. checkLimits checks the current limits.
type grower interface{ checkLimits(Observed) error }

// checkLimits runs before each call of a step, repeated calls included.
func checkLimits(s Step, o Observed) error {
	if g, ok := s.(grower); ok {
		return g.checkLimits(o)
	}
	return nil
}

// incompleteRollback is a step whose rollback may keep a part of the effect, because the VM would
// otherwise exceed its old size. notRolledBack describes the kept part.
type incompleteRollback interface{ notRolledBack(Observed) error }

func notRolledBack(s Step, o Observed) error {
	if l, ok := s.(incompleteRollback); ok {
		return l.notRolledBack(o)
	}
	return nil
}

// isClosing reports whether a step follows when the VM has the desired size. Its failure
// causes no rollback.
func isClosing(s Step) bool {
	return s.kind() == kindAwaitLoweredLimit || s.kind() == kindLowerLock
}

// isWait reports whether a step only waits.
func isWait(s Step) bool {
	return s.kind() == kindAwaitLoweredLimit || s.kind() == kindAwaitRaisedLimit
}

// stopsBalloon reports whether a step only stops the balloon at its current size. It runs even if
// the size is right already, because the guest might still follow an earlier request.
func stopsBalloon(s Step) bool {
	b, ok := s.(SetBalloon)
	return ok && b.From == b.To
}

// isRepeatable reports whether a step sets an absolute value, so that its call may be repeated.
func isRepeatable(s Step) bool {
	switch s.kind() {
	case kindSetVCPUs, kindSetBandwidth, kindRequestMemory, kindSetBalloon,
		kindRaiseLock, kindLowerLock:
		return true
	}
	return false
}

// SizeLimit is the largest allowed size of the VM: Memory in bytes and VCPUs, if memory.max is at
// least Max. The zero value allows every size, for a VM without a known memory limit.
type SizeLimit struct {
	Max    uint64 `json:"max"`
	Memory uint64 `json:"memory"`
	VCPUs  int    `json:"vcpus"`
}

// allows returns an error if a VM of the given size exceeds the limit.
func (r SizeLimit) allows(o Observed, memory uint64, vcpus int) error {
	switch {
	case r == SizeLimit{}:
		return nil
	case memory > r.Memory:
		return fmt.Errorf("the guest would have %s: want at most %s",
			formatBytes(memory), formatBytes(r.Memory))
	case vcpus > r.VCPUs:
		return fmt.Errorf("the guest would have %d vCPUs: want at most %d", vcpus, r.VCPUs)
	}
	return checkMemoryMax(o, r.Max)
}

// checkMemoryMax checks that memory.max of pod and container is at least required.
func checkMemoryMax(o Observed, required uint64) error {
	if o.Limits.MemoryMax() < required {
		return fmt.Errorf("memory.max is %s for the pod and %s for the container: want at least %s",
			formatBytes(o.Limits.PodMax), formatBytes(o.Limits.ContainerMax), formatBytes(required))
	}
	return nil
}
