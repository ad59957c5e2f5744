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
func (r *Runner) Recover(ctx context.Context, desired TargetFunc) (report Report, ok bool, err error) {
	record, err := r.Journal.Load()
	if errors.Is(err, ErrNoRecord) || err == nil && record.Phase == Ended {
		r.newRun(desired).allowMigrations(ctx) // whoever died may have held migrations off, and not begun, or not let them
		return Report{}, false, nil
	}
	if err != nil {
		return Report{}, false, fmt.Errorf("read the journal: %w", err)
	}
	u, end, err := r.start(ctx, desired)
	if err != nil {
		return Report{}, false, err
	}
	defer end()
	if record.Domain != u.record.Domain {
		return Report{}, false, fmt.Errorf("the journal is that of domain %s, and this is domain %s: it is left alone", record.Domain, u.record.Domain)
	}
	u.record, u.unfinished, u.holdsMigrations = record, true, true // the one before was
	u.report.Target, u.report.Plan = record.Target, record.Steps.Descriptions()
	report, err = u.finish(ctx, u.resumeRecord(ctx))
	return report, true, err
}

// resume goes on with the record.
func (u *run) resumeRecord(ctx context.Context) error {
	if u.record.Phase == RollingBack {
		err := errors.New("an earlier run failed and was undone")
		if rollbackErr := u.rollBack(ctx); rollbackErr != nil {
			err = fmt.Errorf("an earlier run failed, and not all of it could be undone: %w", rollbackErr)
		}
		return err
	}
	if u.isDone(ctx) {
		if err := u.confirmLastStep(ctx); err != nil {
			return u.handleFailure(ctx, err) // a new plan would be empty, and take it for done
		}
	}
	return u.converge(ctx)
}

// catchUp waits for the step that was under way.
func (u *run) confirmLastStep(ctx context.Context) error {
	if u.record.Started == u.record.Confirmed {
		return nil
	}
	step := u.record.Steps[u.record.Started-1]
	if isClosing(step) || isWait(step) { // nothing was ordered
		return nil
	}
	err := u.timed(step, false, func() error { return u.awaitStarted(ctx, step) })
	switch {
	case err == nil:
	case ctx.Err() == nil && !mustSuspend(err) && !stillDesired(step, u.record.Target, u.desired()):
		u.Log.Info("a step that was begun has not taken place, and something else is wanted by now", "step", step.String(), "error", err)
		return nil
	default:
		return fmt.Errorf("%s: %w", step, err)
	}
	u.record.Confirmed = u.record.Started // written with what follows, as by perform
	return nil
}

// wantedYet reports whether what a step was for is wanted now. A new generation alone says
// nothing: an agent that was started again has another one for the same.
func stillDesired(s Step, before, now target.Target) bool {
	if s, ok := s.(SetVCPUs); ok {
		return now.VCPUs == s.To
	}
	return now.SameSize(before)
}

// awaitBegun waits for a step of which nobody knows whether its order was given.
func (u *run) awaitStarted(ctx context.Context, step Step) error {
	u.fresh = nil
	ctx, cancel := context.WithTimeout(ctx, step.Timeout())
	defer cancel()
	defer u.setAskGuest(needsGuest(step))()
	if err := u.holdMigrations(ctx, step); err != nil {
		return err
	}
	return u.confirm(ctx, step, nil)
}

// looksDone reports whether a new plan has nothing left to do.
func (u *run) isDone(ctx context.Context) bool {
	o, err := u.observe(ctx)
	return err == nil && matchesTarget(o, u.desired(), u.Policy)
}
