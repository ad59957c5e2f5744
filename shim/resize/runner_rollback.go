package resize

import (
	"context"
	"errors"
	"fmt"
)

// rollBack rolls back all started steps, the last one first. It continues after a failure, and
// joins the errors.
func (u *run) rollBack(ctx context.Context) error {
	u.record.Phase = RollingBack
	errs := u.store() // on failure the journal still has the started steps
	for u.record.Started > 0 {
		err := u.rollBackLast(ctx)
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
	if err != nil {
		err = fmt.Errorf("%s: %w", back, err)
	}
	return errors.Join(err, remainErr)
}
