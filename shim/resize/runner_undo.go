package resize

import (
	"context"
	"errors"
	"fmt"
)

// undo takes back what was begun, the last step first. It goes on after a step that
// cannot be undone; the error joins what failed.
func (u *run) undo(ctx context.Context) error {
	u.record.Phase = Undoing
	failed := u.store() // what was begun is in the journal already
	for u.record.Begun > 0 {
		err := u.undoLast(ctx)
		failed = errors.Join(failed, err)
		if final(err) || ctx.Err() != nil {
			return u.stay(failed)
		}
		u.record.Begun--
		u.record.Confirmed = min(u.record.Confirmed, u.record.Begun)
		failed = errors.Join(failed, u.store())
	}
	return failed
}

// undoLast takes back the last step that was begun.
func (u *run) undoLast(ctx context.Context) error {
	step := u.record.Steps[u.record.Begun-1]
	defer u.asking(asksGuest(step))()
	is, err := u.look(ctx)
	if err != nil {
		return u.stay(err)
	}
	u.latest = &is
	back, left := step.undo(is), leaves(step, is)
	if back == nil {
		return left
	}
	err = u.time(back, true, func() error {
		return u.attempt(ctx, back, func() error { return nil })
	})
	u.log(back, err)
	if err != nil {
		err = fmt.Errorf("%s: %w", back, err)
	}
	return errors.Join(err, left)
}
