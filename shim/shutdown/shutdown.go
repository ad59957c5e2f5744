// Package shutdown ends a domain gracefully. It asks the guest repeatedly, by one method after the
// other, and destroys the domain at the end of its grace period.
package shutdown

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/mooring-vm/mooring/shim/internal/async"
	"github.com/mooring-vm/mooring/shim/virt"
)

// Step asks the guest by one method for the duration of Timeout; 0: until the end of the grace
// period.
type Step struct {
	Method  virt.Shutdown
	Timeout time.Duration
}

// DefaultGrace is the grace period of a guest without another one.
const DefaultGrace = 30 * time.Second

// Options configure a shutdown. The zero value asks by ACPI only, for 30 seconds.
type Options struct {
	// Steps run in this order, the last one until the end of the grace period; nil: ACPI.
	Steps []Step

	// Grace is the grace period of the guest; 0: DefaultGrace.
	Grace time.Duration

	// Resend is the time between two requests of a step; 0: 5 s. A booting or busy guest may lose
	// requests.
	Resend time.Duration

	// Deadlines delivers earlier ends of the grace period. Later ones have no effect. nil: none.
	Deadlines <-chan time.Time

	Log *slog.Logger // nil: none
}

// Outcome is how a domain ended.
type Outcome string

// Outcomes.
const (
	Ended     Outcome = "ended"     // without force
	Destroyed Outcome = "destroyed" // by force, at the end of the grace period
)

func (o Options) withDefaults() Options {
	if o.Grace <= 0 {
		o.Grace = DefaultGrace
	}
	if o.Resend <= 0 {
		o.Resend = 5 * time.Second
	}
	if len(o.Steps) == 0 {
		o.Steps = []Step{{Method: virt.ACPI}}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}

// Run ends a domain. It blocks until libvirt reports that the domain does not run, or ctx ends.
// While libvirt is away Run draws no conclusion and repeats the request: a missing answer is no
// proof of an end. libvirt's report concerns its own records. Only the agent can confirm that the
// process is gone.
//
// The times hold even if libvirt does not answer. Run abandons a hanging call, and starts no second
// call of the same kind.
//
// An unknown or inactive domain has ended. The only error is ctx's.
func Run(ctx context.Context, d virt.Domain, o Options) (Outcome, error) {
	var calls sync.WaitGroup
	defer calls.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r := run{Options: o.withDefaults(), domain: d, calls: &calls}
	outcome, err := Ended, r.askGuest(ctx)
	if err == nil {
		outcome, err = Destroyed, r.destroy(ctx)
	}
	if !errors.Is(err, errEnded) {
		return "", fmt.Errorf("shut down the domain: %w", err)
	}
	return outcome, nil
}

// run is one shutdown.
type run struct {
	Options
	domain virt.Domain
	calls  *sync.WaitGroup // running calls

	request          *async.Call // the current kind of request
	phaseRead        *async.Call
	changedSinceRead bool // an event came after the start of the running phaseRead
	changes          <-chan struct{}
	graceEnd         time.Time // zero: the grace period is over
}

// askGuest asks the guest until its grace period is over. The error is errEnded or ctx's.
func (r *run) askGuest(ctx context.Context) error {
	r.subscribe(ctx)
	end := time.Now().Add(r.Grace)
	r.graceEnd = end
	for i, step := range r.Steps {
		until := end
		if i < len(r.Steps)-1 && step.Timeout > 0 {
			until = time.Now().Add(step.Timeout)
		}
		if err := r.askWith(ctx, step.Method, until); err != nil {
			return err
		}
	}
	return r.await(ctx, end)
}

// withinGrace returns until, or the end of the grace period if that comes first.
func (r *run) withinGrace(until time.Time) time.Time {
	if !r.graceEnd.IsZero() && r.graceEnd.Before(until) {
		return r.graceEnd
	}
	return until
}

// shortenGrace applies a value from Deadlines. ok is false if the channel is closed.
func (r *run) shortenGrace(deadline time.Time, ok bool) {
	if !ok {
		r.Deadlines = nil
	} else if deadline.Before(r.graceEnd) {
		r.graceEnd = deadline
	}
}

// askWith asks by one method. It returns early if the method is not supported.
func (r *run) askWith(ctx context.Context, method virt.Shutdown, until time.Time) error {
	r.setRequest(func(ctx context.Context) error { return r.domain.Shutdown(ctx, method) })
	for time.Now().Before(r.withinGrace(until)) {
		if !r.request.Start(ctx) {
			r.Log.Warn(
				"no answer from libvirt; the guest may not have received the request", "method",
				method,
			)
		}
		next := time.Now().Add(r.Resend)
		if until.Before(next) {
			next = until
		}
		err := r.await(ctx, next)
		if errors.Is(err, virt.ErrUnsupported) {
			r.Log.Info("this shutdown method is not supported", "method", method, "error", err)
			return nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// destroy ends the domain by force, and repeats the request until the domain has ended.
func (r *run) destroy(ctx context.Context) error {
	r.Log.Warn("the grace period is over; destroying the domain", "grace", r.Grace)
	r.graceEnd = time.Time{}
	r.setRequest(r.domain.Destroy)
	for {
		if !r.request.Start(ctx) {
			r.Log.Warn("no answer from libvirt; the domain may not be destroyed")
		}
		if err := r.await(ctx, time.Now().Add(r.Resend)); err != nil {
			return err
		}
	}
}

// isEnded reports whether the error shows an unknown or inactive domain.
func isEnded(err error) bool {
	return errors.Is(err, virt.ErrNoDomain) || errors.Is(err, virt.ErrNotRunning)
}
