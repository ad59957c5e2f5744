package resize

import (
	"context"
	"errors"
	"fmt"
)

// Recover continues a run that the journal has not ended. It continues a rollback. Otherwise it
// finishes the current target, or rolls back the started steps if the target is impossible. Call it
// before the first Run. ok is false without such a run. Recover then only allows migrations again.
//
// The journal shows the started steps. The state of the VM comes from libvirt, the guest and the
// kernel. An unreadable record, or the record of another domain, is an error, and Recover changes
// nothing. Recover ends the record of an earlier start of the VM.
func (r *Runner) Recover(
	ctx context.Context,
	desired TargetFunc,
) (report Report, ok bool, err error) {
	record, err := r.Journal.Load()
	if errors.Is(err, ErrNoRecord) || err == nil && record.Phase == Ended {
		// A shim that died before its first step may have blocked them.
		r.newRun(desired).allowMigrations(ctx)
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
		return Report{}, false, fmt.Errorf(
			"the journal belongs to domain %s, not to %s; nothing was changed", record.Domain,
			u.record.Domain,
		)
	}
	if record.Start != "" && record.Start != u.record.Start {
		return Report{}, false, u.endEarlierStart(record)
	}
	u.record, u.unfinished, u.holdsMigrations = record, true, true // as the previous shim left them
	u.report.Target, u.report.Plan = record.Target, record.Steps.Descriptions()
	report, err = u.finish(ctx, u.resumeRecord(ctx))
	return report, true, err
}

// endEarlierStart ends the record of an earlier start of the VM: its steps have no effect on this
// one. If the agent does not know the VM process yet, the error is ErrAgent.
func (u *run) endEarlierStart(record Record) error {
	if u.record.Start == "" {
		return fmt.Errorf("compare the VM with the journal: the agent knows no VM process: %w",
			u.suspend(ErrAgent))
	}
	u.Log.Info("the VM was started anew: an earlier resize ends", "steps", record.Started)
	record.End("the VM was started anew")
	if err := u.Journal.Store(record); err != nil {
		return fmt.Errorf("write the journal: %w", err)
	}
	return nil
}

// resumeRecord continues with the record.
func (u *run) resumeRecord(ctx context.Context) error {
	if u.record.Phase == RollingBack {
		switch err := u.rollBack(ctx); {
		case errors.Is(err, errSuperseded):
			return u.converge(ctx)
		case err != nil:
			return fmt.Errorf("an earlier run failed, and its rollback is incomplete: %w", err)
		}
		return errors.New("an earlier run failed and was rolled back")
	}
	if u.isDone(ctx) {
		if err := u.confirmLastStep(ctx); err != nil {
			// an empty new plan would look like success
			if err = u.handleFailure(ctx, err); !errors.Is(err, errSuperseded) {
				return err
			}
		}
	}
	return u.converge(ctx)
}

// confirmLastStep waits for the step that was running.
func (u *run) confirmLastStep(ctx context.Context) error {
	if u.record.Started == u.record.Confirmed {
		return nil
	}
	step := u.record.Steps[u.record.Started-1]
	if isClosing(step) || isWait(step) { // there was no call
		return nil
	}
	err := u.timed(step, false, func() error { return u.awaitStarted(ctx, step) })
	switch {
	case err == nil:
	case ctx.Err() == nil && !mustSuspend(err) && !stillDesired(step, u.record.Target, u.desired()):
		u.Log.Info(
			"an earlier step did not take effect and is no longer desired", "step", step.String(),
			"error", err,
		)
		return nil
	default:
		return fmt.Errorf("%s: %w", step, err)
	}
	u.record.Confirmed = u.record.Started // the next write includes this, as in perform
	return nil
}

// awaitStarted waits for a step whose call may or may not have been made.
func (u *run) awaitStarted(ctx context.Context, step Step) error {
	u.fresh = nil
	ctx, w := watchProgress(ctx, step)
	defer w.stop()
	defer u.setAskGuest(needsGuest(step))()
	if err := u.holdMigrations(ctx, step); err != nil {
		return err
	}
	return u.confirm(ctx, w, nil)
}

// isDone reports whether a new plan would have only closing steps.
func (u *run) isDone(ctx context.Context) bool {
	o, err := u.observe(ctx)
	return err == nil && Reached(o, u.desired(), u.Policy)
}
