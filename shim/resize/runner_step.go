package resize

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mooring-vm/mooring/shim/virt"
)

// perform does the next step of the record.
func (u *run) perform(ctx context.Context, step Step) error {
	err := u.timed(step, false, func() error {
		return u.attempt(ctx, step, func() error {
			u.record.Started++
			return u.store()
		})
	})
	u.logStep(step, err)
	if err != nil {
		return fmt.Errorf("%s: %w", step, err)
	}
	u.record.Confirmed = u.record.Started // written with what follows: whoever takes over waits for this step, and finds it done
	return nil
}

func (u *run) logStep(step Step, err error) {
	if err != nil {
		u.Log.Warn("a step of a resize failed", "step", step.String(), "error", err)
		return
	}
	u.Log.Info("a step of a resize is done", "step", step.String())
}

// time does a step and reports it.
func (u *run) timed(step Step, rollback bool, do func() error) error {
	started := time.Now()
	err := do()
	u.report.Steps = append(u.report.Steps, StepReport{
		Description: step.String(), Rollback: rollback, Started: started, Took: time.Since(started), Error: errText(err),
	})
	u.reportProgress()
	return err
}

// store writes the journal.
func (u *run) store() error {
	if err := u.Journal.Store(u.record); err != nil {
		return fmt.Errorf("write the journal: %w", err)
	}
	return nil
}

// attempt does one step: it holds off migrations, looks whether the step may be done,
// writes that it is begun, gives the order, and waits until it is confirmed.
func (u *run) attempt(ctx context.Context, step Step, recordStart func() error) error {
	ctx, cancel := context.WithTimeout(ctx, step.Timeout())
	defer cancel()
	defer u.setAskGuest(needsGuest(step))()
	u.fresh = nil
	if err := u.holdMigrations(ctx, step); err != nil {
		return err
	}
	o, err := u.observeBeforeStep(ctx, step)
	if err != nil {
		return u.suspendIf(uncertain(err), err)
	}
	if err := checkRunning(o); err != nil {
		return err
	}
	done := step.verify(o) == nil && !stopsBalloon(step)
	if !done {
		if err := checkBeforeStart(step, o); err != nil {
			return err
		}
	}
	if err := recordStart(); err != nil {
		return err
	}
	if done {
		return nil
	}
	return u.confirm(ctx, step, step.execute(ctx, u.handles, o))
}

// hold keeps migrations from beginning for as long as the step and its undoing take.
func (u *run) holdMigrations(ctx context.Context, step Step) error {
	u.holdsMigrations = true
	period := 2*step.Timeout() + u.Policy.Timeouts.Read
	if err := u.retryAgent(ctx, func(ctx context.Context) error { return u.node.Hold(ctx, period) }); err != nil {
		return u.suspendIf(uncertain(err), fmt.Errorf("hold migrations off: %w", err))
	}
	return nil
}

// release lets migrations begin again. Where it fails they may when the time is over
// for which they were held off.
func (u *run) releaseMigrations(ctx context.Context) {
	if u.holdsMigrations {
		u.allowMigrations(ctx)
	}
}

// letGo asks the agent until it has answered. Once ctx ends, somebody waits for the
// run to end: then it asks once more, and no longer than between two looks.
func (u *run) allowMigrations(ctx context.Context) {
	free := func(ctx context.Context) error { return u.node.Hold(ctx, 0) }
	bounded, cancel := context.WithTimeout(ctx, u.Policy.Timeouts.Lock)
	defer cancel()
	err := u.retryAgent(bounded, free)
	if err != nil && ctx.Err() != nil {
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), u.Policy.Timeouts.Poll)
		defer cancel()
		err = free(last)
	}
	if err != nil {
		u.Log.Warn("migrations cannot be allowed again; they are when the hold is over", "error", err)
	}
}

// alive checks that the domain is one that can be changed.
func checkRunning(o Observed) error {
	if o.Domain.Migrating {
		return ErrMigrating
	}
	if o.Domain.Phase != virt.Running {
		return fmt.Errorf("the domain is %s: %w", o.Domain.Phase, virt.ErrNotRunning)
	}
	return nil
}

// confirm waits until a step has taken place. ordered is what became of the order: an
// order that was refused is confirmed only if it took place all the same. One that had to
// be given again had less time than it may take.
func (u *run) confirm(ctx context.Context, step Step, orderErr error) error {
	missing, repeated := errors.New("nobody answers"), false
	for {
		o, err := u.read(ctx, u.domain, u.node)
		switch {
		case err == nil:
			if missing = step.verify(o); missing == nil {
				u.fresh = &o
				return nil
			}
			if err := checkRunning(o); err != nil {
				return err
			}
			if orderErr != nil && !uncertain(orderErr) {
				return orderErr
			}
			if maybeLost(orderErr) && isRepeatable(step) {
				if err := checkLimits(step, o); err != nil {
					return err
				}
				repeated, orderErr = true, step.execute(ctx, u.handles, o)
				continue
			}
		case !uncertain(err):
			return err
		}
		if isWait(step) && u.desired().Generation != u.record.Target.Generation {
			return errSuperseded
		}
		if u.waitForChange(ctx) != nil {
			missed := errors.Join(fmt.Errorf("not confirmed within %s: %w", step.Timeout(), missing), orderErr)
			return u.suspendIf(maybeLost(err) || repeated || maybeLost(orderErr) && isRepeatable(step), missed)
		}
	}
}

// lost reports whether a call may never have come to libvirt, or to the agent.
func maybeLost(err error) bool { return errors.Is(err, virt.ErrConnection) || errors.Is(err, ErrAgent) }

// errSuperseded ends a wait for what is not wanted any more.
var errSuperseded = errors.New("something else is wanted by now")

// uncertain reports whether an error leaves open what became of a call.
func uncertain(err error) bool {
	return errors.Is(err, virt.ErrConnection) || errors.Is(err, virt.ErrUnconfirmed) || errors.Is(err, ErrAgent) ||
		errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
}
