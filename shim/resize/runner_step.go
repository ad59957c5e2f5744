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
	err := u.time(step, false, func() error {
		return u.attempt(ctx, step, func() error {
			u.record.Begun++
			return u.store()
		})
	})
	u.log(step, err)
	if err != nil {
		return fmt.Errorf("%s: %w", step, err)
	}
	u.record.Confirmed = u.record.Begun // written with what follows: whoever takes over waits for this step, and finds it done
	return nil
}

func (u *run) log(step Step, err error) {
	if err != nil {
		u.Log.Warn("a step of a resize failed", "step", step.String(), "error", err)
		return
	}
	u.Log.Info("a step of a resize is done", "step", step.String())
}

// time does a step and reports it.
func (u *run) time(step Step, undo bool, do func() error) error {
	started := time.Now()
	err := do()
	u.report.Steps = append(u.report.Steps, StepReport{
		What: step.String(), Undo: undo, Started: started, Took: time.Since(started), Error: errText(err),
	})
	u.progress()
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
func (u *run) attempt(ctx context.Context, step Step, begun func() error) error {
	ctx, cancel := context.WithTimeout(ctx, step.Within())
	defer cancel()
	defer u.asking(asksGuest(step))()
	u.latest = nil
	if err := u.hold(ctx, step); err != nil {
		return err
	}
	is, err := u.lookBefore(ctx, step)
	if err != nil {
		return u.stayIf(uncertain(err), err)
	}
	if err := alive(is); err != nil {
		return err
	}
	done := step.done(is) == nil && !stops(step)
	if !done {
		if err := check(step, is); err != nil {
			return err
		}
	}
	if err := begun(); err != nil {
		return err
	}
	if done {
		return nil
	}
	return u.confirm(ctx, step, step.do(ctx, u.hands, is))
}

// hold keeps migrations from beginning for as long as the step and its undoing take.
func (u *run) hold(ctx context.Context, step Step) error {
	u.holding = true
	period := 2*step.Within() + u.Policy.Bounds.Read
	if err := u.insist(ctx, func(ctx context.Context) error { return u.node.Hold(ctx, period) }); err != nil {
		return u.stayIf(uncertain(err), fmt.Errorf("hold migrations off: %w", err))
	}
	return nil
}

// release lets migrations begin again. Where it fails they may when the time is over
// for which they were held off.
func (u *run) release(ctx context.Context) {
	if u.holding {
		u.letGo(ctx)
	}
}

// letGo asks the agent until it has answered. Once ctx ends, somebody waits for the
// run to end: then it asks once more, and no longer than between two looks.
func (u *run) letGo(ctx context.Context) {
	free := func(ctx context.Context) error { return u.node.Hold(ctx, 0) }
	bounded, cancel := context.WithTimeout(ctx, u.Policy.Bounds.Lock)
	defer cancel()
	err := u.insist(bounded, free)
	if err != nil && ctx.Err() != nil {
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), u.Policy.Bounds.Poll)
		defer cancel()
		err = free(last)
	}
	if err != nil {
		u.Log.Warn("migrations cannot be allowed again; they are when the hold is over", "error", err)
	}
}

// alive checks that the domain is one that can be changed.
func alive(is Is) error {
	if is.Domain.Migrating {
		return ErrMigrating
	}
	if is.Domain.Phase != virt.Running {
		return fmt.Errorf("the domain is %s: %w", is.Domain.Phase, virt.ErrNotRunning)
	}
	return nil
}

// confirm waits until a step has taken place. ordered is what became of the order: an
// order that was refused is confirmed only if it took place all the same. One that had to
// be given again had less time than it may take.
func (u *run) confirm(ctx context.Context, step Step, ordered error) error {
	missing, again := errors.New("nobody answers"), false
	for {
		is, err := u.read(ctx, u.domain, u.node)
		switch {
		case err == nil:
			if missing = step.done(is); missing == nil {
				u.latest = &is
				return nil
			}
			if err := alive(is); err != nil {
				return err
			}
			if ordered != nil && !uncertain(ordered) {
				return ordered
			}
			if lost(ordered) && absolute(step) {
				if err := room(step, is); err != nil {
					return err
				}
				again, ordered = true, step.do(ctx, u.hands, is)
				continue
			}
		case !uncertain(err):
			return err
		}
		if waits(step) && u.wish().Generation != u.record.Target.Generation {
			return errSuperseded
		}
		if u.wait(ctx) != nil {
			missed := errors.Join(fmt.Errorf("not confirmed within %s: %w", step.Within(), missing), ordered)
			return u.stayIf(lost(err) || again || lost(ordered) && absolute(step), missed)
		}
	}
}

// lost reports whether a call may never have come to libvirt, or to the agent.
func lost(err error) bool { return errors.Is(err, virt.ErrConnection) || errors.Is(err, ErrAgent) }

// errSuperseded ends a wait for what is not wanted any more.
var errSuperseded = errors.New("something else is wanted by now")

// uncertain reports whether an error leaves open what became of a call.
func uncertain(err error) bool {
	return errors.Is(err, virt.ErrConnection) || errors.Is(err, virt.ErrUnconfirmed) || errors.Is(err, ErrAgent) ||
		errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
}
