package resize

import (
	"context"
	"errors"
	"fmt"
)

// undo takes back what was begun, the last step first. It goes on after a step that
// cannot be undone; the error joins what failed.
func (u *run) rollBack(ctx context.Context) error {
	u.record.Phase = RollingBack
	errs := u.store() // what was begun is in the journal already
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

// undoLast takes back the last step that was begun.
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
