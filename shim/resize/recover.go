package resize

import (
	"context"
	"errors"
	"fmt"

	"github.com/mooring-vm/mooring/shim/resize/target"
)

// Recover continues a run that the journal has not ended. It continues a rollback. Otherwise it
// finishes the current target, or rolls back the started steps if the target is impossible. Call it
// before the first Run. ok is false without such a run. Recover then only allows migrations again.
//
// The journal shows the started steps. The state of the VM comes from libvirt, the guest and the
// kernel. An unreadable record, or the record of another domain, is an error, and Recover changes
// nothing.
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
	u.record, u.unfinished, u.holdsMigrations = record, true, true // as the previous shim left them
	u.report.Target, u.report.Plan = record.Target, record.Steps.Descriptions()
	report, err = u.finish(ctx, u.resumeRecord(ctx))
	return report, true, err
}

// resumeRecord continues with the record.
func (u *run) resumeRecord(ctx context.Context) error {
	if u.record.Phase == RollingBack {
		err := errors.New("an earlier run failed and was rolled back")
		if rollbackErr := u.rollBack(ctx); rollbackErr != nil {
			err = fmt.Errorf(
				"an earlier run failed, and its rollback is incomplete: %w", rollbackErr,
			)
		}
		return err
	}
	if u.isDone(ctx) {
		if err := u.confirmLastStep(ctx); err != nil {
			return u.handleFailure(ctx, err) // an empty new plan would look like success
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

// stillDesired reports whether the purpose of a step is still desired. The generation alone does
// not decide: a restarted agent assigns a new one to the same size.
func stillDesired(s Step, before, now target.Target) bool {
	if s, ok := s.(SetVCPUs); ok {
		return now.VCPUs == s.To
	}
	return now.SameSize(before)
}

// awaitStarted waits for a step whose call may or may not have been made.
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

// isDone reports whether a new plan would have only closing steps.
func (u *run) isDone(ctx context.Context) bool {
	o, err := u.observe(ctx)
	return err == nil && matchesTarget(o, u.desired(), u.Policy)
}
