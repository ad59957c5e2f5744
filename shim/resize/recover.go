package resize

import (
	"context"
	"errors"
	"fmt"

	"github.com/mooring-vm/mooring/shim/resize/target"
)

// Recover takes up a run that its journal has not ended: it undoes on if it was undone,
// and otherwise finishes what is wanted now, or undoes what was begun if that is not
// possible any more. It is to be called before the first Run. Without such a run it
// tells so with ok, and does nothing but to let migrations begin.
//
// What the journal tells is what was begun. What the VM is, libvirt, the guest and the
// kernel tell. A record that cannot be read, or is another domain's, is an error, and
// nothing is done for it.
func (r *Runner) Recover(ctx context.Context, wish Wish) (report Report, ok bool, err error) {
	record, err := r.Journal.Load()
	if errors.Is(err, ErrNoRecord) || err == nil && record.Phase == Ended {
		r.newRun(wish).letGo(ctx) // whoever died may have held migrations off, and not begun, or not let them
		return Report{}, false, nil
	}
	if err != nil {
		return Report{}, false, fmt.Errorf("read the journal: %w", err)
	}
	u, end, err := r.begin(ctx, wish)
	if err != nil {
		return Report{}, false, err
	}
	defer end()
	if record.Domain != u.record.Domain {
		return Report{}, false, fmt.Errorf("the journal is that of domain %s, and this is domain %s: it is left alone", record.Domain, u.record.Domain)
	}
	u.record, u.pending, u.holding = record, true, true // the one before was
	u.report.Target, u.report.Plan = record.Target, record.Steps.Texts()
	report, err = u.conclude(ctx, u.resume(ctx))
	return report, true, err
}

// resume goes on with the record.
func (u *run) resume(ctx context.Context) error {
	if u.record.Phase == Undoing {
		err := errors.New("an earlier run failed and was undone")
		if undone := u.undo(ctx); undone != nil {
			err = fmt.Errorf("an earlier run failed, and not all of it could be undone: %w", undone)
		}
		return err
	}
	if u.looksDone(ctx) {
		if err := u.catchUp(ctx); err != nil {
			return u.failed(ctx, err) // a new plan would be empty, and take it for done
		}
	}
	return u.reach(ctx)
}

// catchUp waits for the step that was under way.
func (u *run) catchUp(ctx context.Context) error {
	if u.record.Begun == u.record.Confirmed {
		return nil
	}
	step := u.record.Steps[u.record.Begun-1]
	if closing(step) || waits(step) { // nothing was ordered
		return nil
	}
	err := u.time(step, false, func() error { return u.awaitBegun(ctx, step) })
	switch {
	case err == nil:
	case ctx.Err() == nil && !final(err) && !wantedYet(step, u.record.Target, u.wish()):
		u.Log.Info("a step that was begun has not taken place, and something else is wanted by now", "step", step.String(), "error", err)
		return nil
	default:
		return fmt.Errorf("%s: %w", step, err)
	}
	u.record.Confirmed = u.record.Begun // written with what follows, as by perform
	return nil
}

// wantedYet reports whether what a step was for is wanted now. A new generation alone says
// nothing: an agent that was started again has another one for the same.
func wantedYet(s Step, before, now target.Target) bool {
	if s, ok := s.(SetVCPUs); ok {
		return now.VCPUs == s.To
	}
	return now.SameSize(before)
}

// awaitBegun waits for a step of which nobody knows whether its order was given.
func (u *run) awaitBegun(ctx context.Context, step Step) error {
	u.latest = nil
	ctx, cancel := context.WithTimeout(ctx, step.Within())
	defer cancel()
	defer u.asking(asksGuest(step))()
	if err := u.hold(ctx, step); err != nil {
		return err
	}
	return u.confirm(ctx, step, nil)
}

// looksDone reports whether a new plan has nothing left to do.
func (u *run) looksDone(ctx context.Context) bool {
	is, err := u.look(ctx)
	return err == nil && asWanted(is, u.wish(), u.Policy)
}
