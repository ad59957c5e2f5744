package resize

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mooring-vm/mooring/shim/virt"
)

// perform executes the next step of the record.
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
	// The next write includes this. A recovery before it waits for the step and finds it confirmed.
	u.record.Confirmed = u.record.Started
	return nil
}

func (u *run) logStep(step Step, err error) {
	if err != nil {
		u.Log.Warn("resize step failed", "step", step.String(), "error", err)
		return
	}
	u.Log.Info("resize step done", "step", step.String())
}

// timed runs a step and adds it to the report.
func (u *run) timed(step Step, rollback bool, do func() error) error {
	started := time.Now()
	err := do()
	u.report.Steps = append(u.report.Steps, StepReport{
		Description: step.String(),
		Rollback:    rollback,
		Started:     started,
		Took:        time.Since(started),
		Error:       errText(err),
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

// attempt executes one step. It blocks migrations, checks the step's conditions, records its start,
// makes the call and waits for the confirmation.
func (u *run) attempt(ctx context.Context, step Step, recordStart func() error) error {
	ctx, w := watchProgress(ctx, step)
	defer w.stop()
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
	return u.confirm(ctx, w, step.execute(ctx, u.handles, o))
}

// holdMigrations blocks migrations for the maximum time of the step and its rollback.
func (u *run) holdMigrations(ctx context.Context, step Step) error {
	u.holdsMigrations = true
	period := 2*step.Timeout() + u.Policy.Timeouts.Read
	err := u.retryAgent(ctx, func(ctx context.Context) error {
		return u.node.Hold(ctx, period, u.growth)
	})
	if err != nil {
		return u.suspendIf(uncertain(err), fmt.Errorf("block migrations: %w", err))
	}
	return nil
}

// releaseMigrations allows migrations again. If that fails, the block expires.
func (u *run) releaseMigrations(ctx context.Context) {
	if u.holdsMigrations {
		u.allowMigrations(ctx)
	}
}

// allowMigrations retries until the agent answers. After the end of ctx it tries only once more,
// for at most one poll interval, because the caller waits for the end of the run.
func (u *run) allowMigrations(ctx context.Context) {
	free := func(ctx context.Context) error { return u.node.Hold(ctx, 0, 0) }
	bounded, cancel := context.WithTimeout(ctx, u.Policy.Timeouts.Lock)
	defer cancel()
	err := u.retryAgent(bounded, free)
	if err != nil && ctx.Err() != nil {
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), u.Policy.Timeouts.Poll)
		defer cancel()
		err = free(last)
	}
	if err != nil {
		u.Log.Warn("migrations stay blocked until the block expires", "error", err)
	}
}

// checkRunning checks that the domain can be changed.
func checkRunning(o Observed) error {
	if o.Domain.Migrating {
		return ErrMigrating
	}
	if o.Domain.Phase != virt.Running {
		return fmt.Errorf("the domain is %s: %w", o.Domain.Phase, virt.ErrNotRunning)
	}
	return nil
}

// confirm waits until a step has taken effect. orderErr is the result of its call. A refused step
// counts as confirmed only if it took effect anyway. A repeated call had less time than its
// timeout, so its failure suspends the run.
func (u *run) confirm(ctx context.Context, w *progress, orderErr error) error {
	step, missing, repeated := w.step, errors.New("no answer from libvirt or the agent"), false
	ignored := false
	for {
		o, err := u.readVM(ctx)
		switch {
		case err == nil:
			if missing = step.verify(o); missing == nil {
				u.fresh = &o
				return nil
			}
			ignored = isIgnored(step, o)
			if err := checkRunning(o); err != nil {
				return err
			}
			if w.observe(o) {
				if err := u.holdMigrations(ctx, step); err != nil {
					return err
				}
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
		if u.isSuperseded(step) {
			return errSuperseded
		}
		if u.waitForChange(ctx) != nil {
			missed := errors.Join(fmt.Errorf("%s: %w", w.timeoutText(), missing), orderErr)
			if ignored {
				missed = &ignoredError{missed}
			}
			return u.suspendIf(
				maybeLost(err) || repeated || maybeLost(orderErr) && isRepeatable(step), missed,
			)
		}
	}
}

// maybeLost reports whether a call may not have reached libvirt or the agent.
func maybeLost(
	err error,
) bool {
	return errors.Is(err, virt.ErrConnection) || errors.Is(err, ErrAgent)
}

// uncertain reports whether the error leaves the outcome of a call open.
func uncertain(err error) bool {
	return errors.Is(
		err, virt.ErrConnection,
	) || errors.Is(err, virt.ErrUnconfirmed) || errors.Is(err, ErrAgent) ||
		errors.Is(err, context.DeadlineExceeded) ||
		errors.Is(err, context.Canceled)
}
