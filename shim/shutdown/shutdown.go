// Package shutdown ends a domain gracefully: its guest is asked in one way after the
// other, again and again, and the domain is destroyed when its grace period is over.
package shutdown

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/mooring-vm/mooring/shim/internal/asking"
	"github.com/mooring-vm/mooring/shim/virt"
)

// Way is a way to ask, and how long for, before the next way is tried. 0: as long as
// the grace period lasts.
type Step struct {
	Method  virt.Shutdown
	Timeout time.Duration
}

// Options say how to ask. The zero value asks by ACPI alone, for 30 seconds.
type Options struct {
	// Ways are tried in this order, the last one until the end; nil: ACPI.
	Steps []Step

	// Grace is how long the guest has in all; 0: 30 s.
	Grace time.Duration

	// Resend is the time between two requests in the same way; 0: 5 s. A guest that
	// boots, or is busy, loses some.
	Resend time.Duration

	// Sooner tells of moments at which the grace period is over, if that is sooner; nil:
	// none.
	Deadlines <-chan time.Time

	Log *slog.Logger // nil: none
}

// Outcome is how a domain ended.
type Outcome string

// Outcomes.
const (
	Ended     Outcome = "ended"     // by itself
	Destroyed Outcome = "destroyed" // when its grace period was over
)

func (o Options) withDefaults() Options {
	if o.Grace <= 0 {
		o.Grace = 30 * time.Second
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

// Run ends a domain, and blocks until libvirt says that it does not run, or ctx is
// done. While libvirt is away nothing is concluded, and it is asked again: no answer
// is no proof of an end. What libvirt says of the end is a statement about its own
// records; whether the process is gone is the agent's to confirm.
//
// The times hold whether libvirt answers or not. A call that hangs is left to itself, and
// there is at most one of a kind.
//
// A domain that libvirt does not know, or that does not run, has ended. The error is
// that of ctx.
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
	calls  *sync.WaitGroup // those under way

	request          *asking.Call // the last one
	phaseRead        *asking.Call
	changedSinceRead bool // there is something new since the look that is under way
	changes          <-chan struct{}
	graceEnd         time.Time // when the grace period is; zero: it is
}

// ask asks the guest until its grace period is over. The error is errEnded or that of ctx.
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

// bound returns the end of the grace period if that is sooner.
func (r *run) withinGrace(until time.Time) time.Time {
	if !r.graceEnd.IsZero() && r.graceEnd.Before(until) {
		return r.graceEnd
	}
	return until
}

// hurry takes a moment at which the grace period is over.
func (r *run) shortenGrace(deadline time.Time, ok bool) {
	if !ok {
		r.Deadlines = nil
	} else if deadline.Before(r.graceEnd) {
		r.graceEnd = deadline
	}
}

// askBy asks in one way. It gives up early where that way is not there.
func (r *run) askWith(ctx context.Context, method virt.Shutdown, until time.Time) error {
	r.setRequest(func(ctx context.Context) error { return r.domain.Shutdown(ctx, method) })
	for time.Now().Before(r.withinGrace(until)) {
		if !r.request.Ask(ctx) {
			r.Log.Warn("whether the guest was asked to shut down is not known: libvirt does not answer", "way", method)
		}
		next := time.Now().Add(r.Resend)
		if until.Before(next) {
			next = until
		}
		err := r.await(ctx, next)
		if errors.Is(err, virt.ErrUnsupported) {
			r.Log.Info("the guest cannot be asked in this way", "way", method, "error", err)
			return nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// destroy ends the domain by force, and does not rest before it has ended.
func (r *run) destroy(ctx context.Context) error {
	r.Log.Warn("the guest did not shut down in its grace period; the domain is destroyed", "grace", r.Grace)
	r.graceEnd = time.Time{}
	r.setRequest(r.domain.Destroy)
	for {
		if !r.request.Ask(ctx) {
			r.Log.Warn("whether the domain was destroyed is not known: libvirt does not answer")
		}
		if err := r.await(ctx, time.Now().Add(r.Resend)); err != nil {
			return err
		}
	}
}

// over reports whether the error says that there is nothing to end.
func isEnded(err error) bool {
	return errors.Is(err, virt.ErrNoDomain) || errors.Is(err, virt.ErrNotRunning)
}
