package resize

import (
	"context"
	"errors"
	"fmt"

	"github.com/mooring-vm/mooring/shim/resize/target"
)

// errSuperseded ends a step whose purpose is no longer desired.
var errSuperseded = errors.New("the target has changed")

// isSuperseded reports whether a new target ends the wait for a step. A step without a guest runs
// to its end.
func (u *run) isSuperseded(s Step) bool {
	now := u.desired()
	switch {
	case u.record.Phase == RollingBack:
		return u.isRollbackSuperseded() && (isWait(s) || awaitsGuest(s))
	case now.Generation == u.record.Target.Generation:
		return false
	case isWait(s):
		return true
	}
	return awaitsGuest(s) && !stillDesired(s, u.record.Target, now)
}

// isRollbackSuperseded reports whether a new target ends a rollback. A target without a size for a
// dimension of this run needs the rollback.
func (u *run) isRollbackSuperseded() bool {
	now := u.desired()
	return now.Generation != u.rollbackTarget.Generation && !now.SameSize(u.rollbackTarget) &&
		!withdraws(u.record.Target, now)
}

// withdraws reports whether a dimension has no size any more.
func withdraws(before, now target.Target) bool {
	return before.Memory != 0 && now.Memory == 0 || before.VCPUs != 0 && now.VCPUs == 0
}

// stillDesired reports whether the purpose of a step is still desired. The generation alone does
// not decide: a restarted agent assigns a new one to the same size.
func stillDesired(s Step, before, now target.Target) bool {
	switch {
	case s.kind() == kindSetVCPUs:
		return now.VCPUs == before.VCPUs
	case awaitsGuest(s):
		return now.Memory == before.Memory
	}
	return now.SameSize(before)
}

// awaitsGuest reports whether a step waits for the guest.
func awaitsGuest(s Step) bool {
	switch s.kind() {
	case kindSetVCPUs, kindRequestMemory, kindAttachVirtioMem, kindDetachDIMM, kindSetBalloon:
		return true
	}
	return false
}

// leaveTarget prepares the VM for the plan to a new target. It rolls back a size that is no longer
// desired at all. Otherwise it stops the superseded step, if any.
func (u *run) leaveTarget(ctx context.Context, superseded Step) error {
	if withdraws(u.record.Target, u.desired()) {
		if err := u.rollBack(ctx); !errors.Is(err, errSuperseded) {
			return err
		}
		return nil
	}
	if w, ok := superseded.(withdrawable); ok {
		return u.withdraw(ctx, w)
	}
	return nil
}

// withdrawable is a step whose effect stops where it is. withdrawal returns nil if nothing moves.
type withdrawable interface{ withdrawal(Observed) Step }

// withdraw stops a superseded step, so that the next plan finds a VM at rest.
func (u *run) withdraw(ctx context.Context, w withdrawable) error {
	o, err := u.observe(ctx)
	if err != nil {
		return u.suspend(err)
	}
	keep := w.withdrawal(o)
	if keep == nil {
		return nil
	}
	err = u.timed(keep, false, func() error {
		return u.attempt(ctx, keep, func() error { return nil })
	})
	u.logStep(keep, err)
	if err != nil {
		return fmt.Errorf("%s: %w", keep, err)
	}
	return nil
}
