package coordinator

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/mooring-vm/mooring/api/podapi"
	"github.com/mooring-vm/mooring/shim/resize"
	"github.com/mooring-vm/mooring/shim/virt"
)

// resizer makes one VM what it is wanted to be, again and again.
type resizer struct {
	*Coordinator
	domain virt.Domain

	latest atomic.Pointer[podapi.Wanted] // nil: not known yet
	news   chan struct{}

	done  uint64 // generation that needs no more; it counts from 1
	dry   podapi.Size
	retry time.Duration // 0: the last one did not fail
	told  failure       // last
}

// run resizes until ctx is done.
func (r *resizer) run(ctx context.Context) {
	r.news = make(chan struct{}, 1)
	listening := make(chan struct{})
	go func() {
		defer close(listening)
		r.listen(ctx)
	}()
	defer func() { <-listening }()
	for recovered := false; r.next(ctx); {
		if !recovered {
			recovered = r.recover(ctx)
		}
		if recovered {
			r.resize(ctx)
		}
	}
}

// listen keeps up with what is wanted.
func (r *resizer) listen(ctx context.Context) {
	changes, err := r.Agent.Changed(ctx)
	if err != nil {
		r.Log.Debug("no hints from the agent; it is asked instead", "error", err)
	}
	looks := time.NewTicker(10 * period)
	defer looks.Stop()
	for {
		r.look(ctx)
		select {
		case <-ctx.Done():
			return
		case <-looks.C:
		case _, ok := <-changes:
			if !ok {
				changes = nil
			}
		}
	}
}

// look asks what is wanted, and wakes the resizer if that is news.
func (r *resizer) look(ctx context.Context) {
	w, err := r.Agent.Wanted(ctx)
	if err != nil {
		if ctx.Err() == nil {
			r.Log.Debug("what the VM is wanted to be is not known", "error", err)
		}
		return
	}
	if old := r.latest.Swap(&w); old != nil && old.Generation == w.Generation {
		return
	}
	select {
	case r.news <- struct{}{}:
	default:
	}
}

// next waits for something to do; false: ctx is done.
func (r *resizer) next(ctx context.Context) bool {
	var again <-chan time.Time
	if r.retry > 0 {
		timer := time.NewTimer(r.retry)
		defer timer.Stop()
		again = timer.C
	}
	select {
	case <-ctx.Done():
		return false
	case <-r.news:
		r.retry = 0
	case <-again:
	}
	return ctx.Err() == nil
}

// recover ends what an earlier shim has begun, and reports whether that is done with.
func (r *resizer) recover(ctx context.Context) bool {
	wish, err := r.wishOrBegun(ctx)
	if err != nil {
		r.fail(ctx, err)
		return false
	}
	report, some, err := r.runner().Recover(ctx, wish)
	switch {
	case ctx.Err() != nil:
		return false
	case unfinished(err):
		r.fail(ctx, err)
		return false
	case err != nil:
		r.Log.Warn("what was begun before could not be ended", "error", err)
	}
	if some {
		r.tell(ctx, outcome(r.latest.Load().Generation, report, err))
	}
	return true
}

// unfinished reports whether a run goes on from its journal later.
func unfinished(err error) bool {
	return errors.Is(err, virt.ErrConnection) || errors.Is(err, resize.ErrAgent) || errors.Is(err, resize.ErrMigrating)
}

// resize makes the VM what it is wanted to be now.
func (r *resizer) resize(ctx context.Context) {
	w := *r.latest.Load()
	r.tryOut(ctx, w)
	if w.Generation == r.done {
		return
	}
	if w.Error != "" {
		r.tell(ctx, podapi.Report{Generation: w.Generation, State: podapi.StateRefused, Error: line(w.Error)})
		r.done = w.Generation
		return
	}
	wish, err := r.wish(ctx)
	if err != nil {
		r.fail(ctx, err)
		return
	}
	if plan := r.plan(ctx, wish()); len(plan) > 0 && r.retry == 0 { // nobody wants to hear of each attempt
		r.tell(ctx, podapi.Report{Generation: w.Generation, State: podapi.StateResizing, Plan: plan})
	}
	report, err := r.runner().Run(ctx, wish)
	if ctx.Err() != nil {
		return // the VM ends, or another shim goes on
	}
	if err != nil && r.migrates(ctx) {
		r.later() // unless a keeper has seen it first
		return
	}
	if err != nil {
		r.Log.Warn("the VM is not as it is wanted", "error", err)
		r.later()
	} else {
		r.done, r.retry = uint64(report.Wanted.Generation), 0
		r.Log.Info("the VM is as it is wanted", "generation", r.done, "steps", len(report.Steps))
	}
	r.tell(ctx, outcome(max(w.Generation, uint64(report.Wanted.Generation)), report, err))
}

// tryOut tells what a size would take that somebody only asks about.
func (r *resizer) tryOut(ctx context.Context, w podapi.Wanted) {
	if w.DryRun == nil || *w.DryRun == r.dry {
		return
	}
	r.dry = *w.DryRun
	report := podapi.Report{Generation: w.Generation, State: podapi.StatePlanned}
	w.Size = *w.DryRun
	size, err := r.size(ctx, w)
	var plan resize.Plan
	if err == nil {
		plan, err = r.makePlan(ctx, resize.Wanted{Generation: int64(w.Generation), Size: size})
	}
	if err != nil {
		report.State, report.Error = podapi.StateRefused, line(err.Error())
	}
	report.Plan, report.Notes = steps(plan), lines(plan.Notes)
	r.tell(ctx, report)
}

func (r *resizer) runner() *resize.Runner {
	return &resize.Runner{Domain: r.domain, Node: r.Agent, Journal: r.Journal, Policy: r.Policy, Log: r.Log}
}

// fail tells that nothing could be begun.
func (r *resizer) fail(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	r.later()
	if r.migrates(ctx) {
		return
	}
	r.Log.Warn("the VM cannot be resized now", "error", err)
	r.tell(ctx, outcome(r.latest.Load().Generation, resize.Report{}, err))
}

// later has it tried again.
func (r *resizer) later() { r.retry = min(max(2*r.retry, retryFirst), retryMax) }
