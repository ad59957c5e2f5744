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
func (r *run) listen(ctx context.Context) {
	changes, err := r.domain.Changed(ctx)
	if err != nil {
		r.Log.Debug("no events of the domain; it is looked at instead", "error", err)
	}
	r.changes = changes
	r.look = asking.New(r.calls, func(ctx context.Context) error {
		phase, err := r.domain.Phase(ctx)
		if err == nil && phase.Ended() {
			return virt.ErrNotRunning
		}
		return err
	})
}

// orders says what is ordered from now on. What hangs of the order before is of no
// interest any more.
func (r *run) orders(do func(context.Context) error) { r.order = asking.New(r.calls, do) }

// await waits for the end of the domain, for so long, and within the grace period. The
// error is errEnded, that of ctx, or, within the grace period, one with
// [virt.ErrUnsupported] if that answers the order.
func (r *run) await(ctx context.Context, until time.Time) error {
	timer := time.NewTimer(time.Until(r.bound(until)))
	defer timer.Stop()
	r.lookAgain(ctx)
	for {
		var err error
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-timer.C:
			return nil
		case over, ok := <-r.Sooner:
			r.hurry(over, ok)
			timer.Reset(time.Until(r.bound(until)))
		case _, ok := <-r.changes:
			r.changed(ctx, ok)
		case answer := <-r.look.Answer():
			err = r.looked(ctx, answer)
		case answer := <-r.order.Answer():
			err = r.answered(ctx, answer)
		}
		if err != nil {
			return err
		}
	}
}

func (r *run) changed(ctx context.Context, ok bool) {
	if !ok {
		r.changes = nil
	}
	r.lookAgain(ctx)
}

// lookAgain looks at what the domain is now.
func (r *run) lookAgain(ctx context.Context) { r.stale = !r.look.Ask(ctx) }

func (r *run) looked(ctx context.Context, answer error) error {
	r.look.Taken()
	if over(answer) {
		return errEnded
	}
	if r.stale {
		r.lookAgain(ctx)
	}
	return nil
}

// answered takes the answer to an order.
func (r *run) answered(ctx context.Context, answer error) error {
	r.order.Taken()
	switch {
	case over(answer):
		return errEnded
	case errors.Is(answer, virt.ErrUnsupported) && !r.over.IsZero():
		return answer
	case answer != nil && ctx.Err() == nil:
		r.Log.Warn("the domain was not asked to end", "error", answer)
	}
	r.lookAgain(ctx)
	return nil
}
