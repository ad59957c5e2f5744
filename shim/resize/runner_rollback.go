package resize

import (
	"context"
	"errors"
	"fmt"
)

// rollBack rolls back all started steps, the last one first. It continues after a failure, and
// joins the errors. If a new target supersedes the rollback, it returns errSuperseded, and the next
// plan starts from the VM as it is.
func (u *run) rollBack(ctx context.Context) error {
	u.record.Phase, u.rollbackTarget = RollingBack, u.desired()
	errs := u.store() // on failure the journal still has the started steps
	for u.record.Started > 0 {
		if u.isRollbackSuperseded() {
			return errSuperseded
		}
		err := u.rollBackLast(ctx)
		if errors.Is(err, errSuperseded) {
			return err
		}
		errs = errors.Join(errs, err)
		if mustSuspend(err) || ctx.Err() != nil {
			return u.suspend(errs)
		}
		u.record.Started--
		u.record.Confirmed = min(u.record.Confirmed, u.record.Started)
		errs = errors.Join(errs, u.store())
	}
	return errs
}

// rollBackLast rolls back the last started step.
func (u *run) rollBackLast(ctx context.Context) error {
	step := u.record.Steps[u.record.Started-1]
	defer u.setAskGuest(needsGuest(step))()
	o, err := u.observe(ctx)
	if err != nil {
		return u.suspend(err)
	}
	u.fresh = &o
	back, remainErr := step.rollback(o), notRolledBack(step, o)
	if back == nil {
		return remainErr
	}
	err = u.timed(back, true, func() error {
		return u.attempt(ctx, back, func() error { return nil })
	})
	u.logStep(back, err)
	if errors.Is(err, errSuperseded) {
		return u.stopRollback(ctx, back)
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", back, err)
	}
	return errors.Join(err, remainErr)
}

// stopRollback stops a superseded step of a rollback where it is.
func (u *run) stopRollback(ctx context.Context, step Step) error {
	if w, ok := step.(withdrawable); ok {
		if err := u.withdraw(ctx, w); err != nil {
			return err
		}
	}
	return errSuperseded
}
