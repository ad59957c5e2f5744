package shutdown

import (
	"context"
	"errors"
	"time"

	"github.com/mooring-vm/mooring/shim/internal/asking"
	"github.com/mooring-vm/mooring/shim/virt"
)

// errEnded says that the domain has ended.
var errEnded = errors.New("the domain has ended")

// listen has await hear of what changes.
func (r *run) subscribe(ctx context.Context) {
	changes, err := r.domain.Changed(ctx)
	if err != nil {
		r.Log.Debug("no events of the domain; it is looked at instead", "error", err)
	}
	r.changes = changes
	r.phaseRead = asking.New(r.calls, func(ctx context.Context) error {
		phase, err := r.domain.Phase(ctx)
		if err == nil && phase.Ended() {
			return virt.ErrNotRunning
		}
		return err
	})
}

// orders says what is ordered from now on. What hangs of the order before is of no
// interest any more.
func (r *run) setRequest(do func(context.Context) error) { r.request = asking.New(r.calls, do) }

// await waits for the end of the domain, for so long, and within the grace period. The
// error is errEnded, that of ctx, or, within the grace period, one with
// [virt.ErrUnsupported] if that answers the order.
func (r *run) await(ctx context.Context, until time.Time) error {
	timer := time.NewTimer(time.Until(r.withinGrace(until)))
	defer timer.Stop()
	r.readPhase(ctx)
	for {
		var err error
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-timer.C:
			return nil
		case deadline, ok := <-r.Deadlines:
			r.shortenGrace(deadline, ok)
			timer.Reset(time.Until(r.withinGrace(until)))
		case _, ok := <-r.changes:
			r.handleChange(ctx, ok)
		case answer := <-r.phaseRead.Answer():
			err = r.handlePhase(ctx, answer)
		case answer := <-r.request.Answer():
			err = r.handleAnswer(ctx, answer)
		}
		if err != nil {
			return err
		}
	}
}

func (r *run) handleChange(ctx context.Context, ok bool) {
	if !ok {
		r.changes = nil
	}
	r.readPhase(ctx)
}

// lookAgain looks at what the domain is now.
func (r *run) readPhase(ctx context.Context) { r.changedSinceRead = !r.phaseRead.Ask(ctx) }

func (r *run) handlePhase(ctx context.Context, answer error) error {
	r.phaseRead.Taken()
	if isEnded(answer) {
		return errEnded
	}
	if r.changedSinceRead {
		r.readPhase(ctx)
	}
	return nil
}

// answered takes the answer to an order.
func (r *run) handleAnswer(ctx context.Context, answer error) error {
	r.request.Taken()
	switch {
	case isEnded(answer):
		return errEnded
	case errors.Is(answer, virt.ErrUnsupported) && !r.graceEnd.IsZero():
		return answer
	case answer != nil && ctx.Err() == nil:
		r.Log.Warn("the domain was not asked to end", "error", answer)
	}
	r.readPhase(ctx)
	return nil
}
