package shutdown

import (
	"context"
	"errors"
	"time"

	"github.com/mooring-vm/mooring/shim/internal/async"
	"github.com/mooring-vm/mooring/shim/virt"
)

// errEnded reports that the domain has ended.
var errEnded = errors.New("the domain has ended")

// subscribe starts the domain's events, and prepares the reads of its phase.
func (r *run) subscribe(ctx context.Context) {
	changes, err := r.domain.Changed(ctx)
	if err != nil {
		r.Log.Debug("no events for the domain; its phase is polled", "error", err)
	}
	r.changes = changes
	r.phaseRead = async.New(r.calls, func(ctx context.Context) error {
		phase, err := r.domain.Phase(ctx)
		if err == nil && phase.Ended() {
			return virt.ErrNotRunning
		}
		return err
	})
}

// setRequest sets the call for all following requests. The answer to an earlier, hanging call no
// longer matters.
func (r *run) setRequest(do func(context.Context) error) { r.request = async.New(r.calls, do) }

// await waits until the given time, or the end of the grace period if that comes first. It returns
// errEnded if the domain has ended, or ctx's error. Within the grace period it returns an answer
// with [virt.ErrUnsupported].
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
		case answer := <-r.phaseRead.Result():
			err = r.handlePhase(ctx, answer)
		case answer := <-r.request.Result():
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

// readPhase starts a read of the phase, unless one is running.
func (r *run) readPhase(ctx context.Context) { r.changedSinceRead = !r.phaseRead.Start(ctx) }

func (r *run) handlePhase(ctx context.Context, answer error) error {
	r.phaseRead.Reset()
	if isEnded(answer) {
		return errEnded
	}
	if r.changedSinceRead {
		r.readPhase(ctx)
	}
	return nil
}

// handleAnswer handles the answer to a request.
func (r *run) handleAnswer(ctx context.Context, answer error) error {
	r.request.Reset()
	switch {
	case isEnded(answer):
		return errEnded
	case errors.Is(answer, virt.ErrUnsupported) && !r.graceEnd.IsZero():
		return answer
	case answer != nil && ctx.Err() == nil:
		r.Log.Warn("the request to end the domain failed", "error", answer)
	}
	r.readPhase(ctx)
	return nil
}
