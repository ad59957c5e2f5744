package coordinator

import (
	"context"
	"errors"
	"sync"
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

	latest  atomic.Pointer[podapi.Desired] // nil: not known yet
	changed chan struct{}                  // something else is wanted
	dryRuns chan struct{}                  // another dry run is

	doneGeneration uint64        // generation that needs no more; it counts from 1
	retryDelay     time.Duration // 0: the last one did not fail
	lastReported   failureKey    // last
}

// run resizes until ctx ends.
func (r *resizer) run(ctx context.Context) {
	r.changed, r.dryRuns = make(chan struct{}, 1), make(chan struct{}, 1)
	var others sync.WaitGroup
	defer others.Wait()
	others.Go(func() { r.pollDesired(ctx) })
	others.Go(func() { r.answerDryRuns(ctx) })
	for recovered := false; r.awaitWork(ctx); {
		if !recovered {
			recovered = r.recoverJournal(ctx)
		}
		if recovered {
			recovered = r.resizeOnce(ctx)
		}
	}
}

// listen keeps up with what is wanted.
func (r *resizer) pollDesired(ctx context.Context) {
	changes, err := r.Agent.Changed(ctx)
	if err != nil {
		r.Log.Debug("no hints from the agent; it is asked instead", "error", err)
	}
	looks := time.NewTicker(10 * pollInterval)
	defer looks.Stop()
	for {
		r.readDesired(ctx)
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

// look asks what is wanted, and wakes who has something to do by it.
func (r *resizer) readDesired(ctx context.Context) {
	w, err := r.Agent.Desired(ctx)
	if err != nil {
		if ctx.Err() == nil {
			r.Log.Debug("what the VM is wanted to be is not known", "error", err)
		}
		return
	}
	old := r.latest.Swap(&w)
	if old == nil || old.Generation != w.Generation {
		notify(r.changed)
	}
	if isNewDryRun(old, &w) {
		notify(r.dryRuns)
	}
}

func notify(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// next waits for something to do; false: ctx ends.
func (r *resizer) awaitWork(ctx context.Context) bool {
	var again <-chan time.Time
	if r.retryDelay > 0 {
		timer := time.NewTimer(r.retryDelay)
		defer timer.Stop()
		again = timer.C
	}
	select {
	case <-ctx.Done():
		return false
	case <-r.changed:
		r.retryDelay = 0
	case <-again:
	}
	return ctx.Err() == nil
}

// recover ends what an earlier shim has begun, and reports whether that is done with.
func (r *resizer) recoverJournal(ctx context.Context) bool {
	wish, err := r.targetFuncOrJournal(ctx)
	if err != nil {
		r.reportNotStarted(ctx, err)
		return false
	}
	report, some, err := r.runner(ctx).Recover(ctx, wish)
	if some && err == nil && !report.TargetReached {
		err = errChanged
	}
	switch {
	case ctx.Err() != nil:
		return false
	case isTemporary(err) || resize.Suspended(err):
		r.reportNotStarted(ctx, err)
		return false
	case err != nil:
		r.Log.Warn("what was begun before could not be ended", "error", err)
	}
	if some {
		r.reportOnce(ctx, buildReport(report.Target.Generation, report, err)) // which may be older than what is wanted now
	}
	return true
}

// errChanged is told where all steps are done and the VM is not as wanted all the same.
var errChanged = errors.New("the VM is not what it was made: somebody else has changed it, or it has been started anew")

// unfinished reports whether a run goes on from its journal later.
func isTemporary(err error) bool {
	return errors.Is(err, virt.ErrConnection) || errors.Is(err, resize.ErrAgent) || errors.Is(err, resize.ErrMigrating)
}

// resize makes the VM what it is wanted to be now, and reports whether that has ended.
func (r *resizer) resizeOnce(ctx context.Context) bool {
	w := *r.latest.Load()
	if w.Generation == r.doneGeneration {
		return true
	}
	if w.Error != "" {
		r.reportOnce(ctx, podapi.Report{Generation: w.Generation, State: podapi.StateRefused, Error: line(w.Error)})
		r.doneGeneration = w.Generation
		return true
	}
	wish, err := r.targetFunc(ctx)
	if err != nil {
		r.reportNotStarted(ctx, err)
		return true
	}
	report, err := r.runner(ctx).Run(ctx, wish)
	if ctx.Err() != nil {
		return true // the VM ends, or another shim goes on
	}
	if err == nil && !report.TargetReached {
		err = errChanged
	}
	if err != nil && r.isMigrating(ctx) {
		r.scheduleRetry() // unless a keeper has seen it first
		return !resize.Suspended(err)
	}
	if err != nil {
		r.Log.Warn("the VM is not as it is wanted", "error", err)
		r.scheduleRetry()
	} else {
		r.doneGeneration, r.retryDelay = report.Target.Generation, 0
		r.Log.Info("the VM is as it is wanted", "generation", r.doneGeneration, "steps", len(report.Steps))
	}
	r.reportOnce(ctx, buildReport(max(w.Generation, report.Target.Generation), report, err))
	return !resize.Suspended(err)
}

func (r *resizer) runner(ctx context.Context) *resize.Runner {
	return &resize.Runner{
		Domain: r.domain, Node: r.Agent, Journal: r.Journal, Policy: r.Policy, Log: r.Log,
		Progress: r.progressReporter(ctx, r.latest.Load().Generation),
	}
}

// fail tells that nothing could be begun.
func (r *resizer) reportNotStarted(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	r.scheduleRetry()
	if r.isMigrating(ctx) {
		return
	}
	r.Log.Warn("the VM cannot be resized now", "error", err)
	r.reportOnce(ctx, buildReport(r.latest.Load().Generation, resize.Report{}, err))
}

// later has it tried again.
func (r *resizer) scheduleRetry() { r.retryDelay = min(max(2*r.retryDelay, minRetry), maxRetry) }
