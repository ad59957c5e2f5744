package coordinator

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mooring-vm/mooring/api/podapi"
	"github.com/mooring-vm/mooring/shim/resize"
	"github.com/mooring-vm/mooring/shim/resize/target"
	"github.com/mooring-vm/mooring/shim/virt"
)

// resizer brings one VM to its desired size, again after each change.
type resizer struct {
	*Coordinator
	domain virt.Domain
	since  time.Time // when the shim found the VM

	latest  atomic.Pointer[podapi.Desired] // nil: not read yet
	changed chan struct{}                  // receives after a change of the generation
	dryRuns chan struct{}                  // receives after a new request for a dry run

	doneGeneration uint64        // generation whose size the VM had last; the first is 1
	retryDelay     time.Duration // 0: the last comparison found the desired size
	lastReported   failureKey
	booted         bool // the guest has followed a resize
}

// run resizes until ctx ends.
func (r *resizer) run(ctx context.Context) {
	r.changed, r.dryRuns = make(chan struct{}, 1), make(chan struct{}, 1)
	var tasks sync.WaitGroup
	defer tasks.Wait()
	tasks.Go(func() { r.pollDesired(ctx) })
	tasks.Go(func() { r.answerDryRuns(ctx) })
	for recovered := false; r.awaitWork(ctx); {
		if !recovered {
			recovered = r.recoverJournal(ctx)
		}
		if recovered {
			recovered = r.resizeOnce(ctx)
		}
	}
}

// pollDesired reads the desired size after each change, after a failure, and regularly.
func (r *resizer) pollDesired(ctx context.Context) {
	changes, err := r.Agent.Changed(ctx)
	if err != nil {
		r.Log.Debug("cannot subscribe to the agent's changes; polling only", "error", err)
	}
	for {
		next := idleInterval
		if !r.readDesired(ctx) {
			next = 5 * retryInterval
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(next):
		case _, ok := <-changes:
			if !ok {
				changes = nil
			}
		}
	}
}

// readDesired reads the desired size and notifies about a new size and a new dry run. It returns
// false if the agent does not answer.
func (r *resizer) readDesired(ctx context.Context) bool {
	desired, err := r.Agent.Desired(ctx)
	if err != nil {
		if ctx.Err() == nil {
			r.Log.Debug("cannot read the desired size", "error", err)
		}
		return false
	}
	old := r.latest.Swap(&desired)
	if old == nil || old.Generation != desired.Generation {
		notify(r.changed)
	}
	if isNewDryRun(old, &desired) {
		notify(r.dryRuns)
	}
	return true
}

func notify(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// awaitWork waits for a change, a due retry or the next comparison. It returns false when ctx ends.
func (r *resizer) awaitWork(ctx context.Context) bool {
	timer := time.NewTimer(cmp.Or(r.retryDelay, idleInterval))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-r.changed:
		r.retryDelay = 0
	case <-timer.C:
	}
	return ctx.Err() == nil && r.latest.Load() != nil
}

// recoverJournal ends the run of an earlier shim or attempt. It returns false if it must run again.
func (r *resizer) recoverJournal(ctx context.Context) bool {
	targets, err := r.targetFuncOrJournal(ctx)
	if err != nil {
		r.reportNotStarted(ctx, err)
		return false
	}
	report, found, err := r.runner(ctx).Recover(ctx, targets)
	if found && err == nil && !report.TargetReached {
		err = errChanged
	}
	switch {
	case ctx.Err() != nil:
		return false
	case isTemporary(err) || resize.Suspended(err):
		r.reportNotStarted(ctx, err)
		return false
	case err != nil:
		r.Log.Warn("cannot recover an earlier resize", "error", err)
	}
	if found {
		// The record's generation may be older than the desired one.
		r.reportOnce(ctx, buildReport(report.Target.Generation, report, err))
	}
	return true
}

// errChanged is the error of a run in which every step succeeded, but the VM has another size.
var errChanged = errors.New(
	"the VM does not have its new size: another client changed it, or the VM restarted",
)

// isTemporary reports whether a run with this error continues later from its journal.
func isTemporary(err error) bool {
	return errors.Is(err, virt.ErrConnection) || errors.Is(err, resize.ErrAgent) ||
		errors.Is(err, resize.ErrMigrating)
}

// resizeOnce compares the VM with its desired size, and resizes it if they differ. It returns false
// if the run was suspended and recoverJournal must continue it.
func (r *resizer) resizeOnce(ctx context.Context) bool {
	desired := *r.latest.Load()
	if desired.Error != "" {
		r.reportOnce(ctx, podapi.Report{
			Generation: desired.Generation, State: podapi.StateRefused, Error: line(desired.Error),
		})
		return true
	}
	targets, err := r.targetFunc(ctx)
	if err != nil {
		r.reportNotStarted(ctx, err)
		return true
	}
	drifted := false
	if desired.Generation == r.doneGeneration {
		if drifted = r.hasDrifted(ctx, targets()); !drifted {
			r.retryDelay = 0
			return true
		}
		r.Log.Warn("another client changed the VM: resizing it to its desired size")
	}
	report, err := r.runner(ctx).Run(ctx, targets)
	if ctx.Err() != nil {
		return true // the VM ends or migrates, or the next shim continues
	}
	if err == nil && !report.TargetReached {
		err = errChanged
	}
	if err != nil && r.isMigrating(ctx) {
		r.scheduleRetry() // for the case that vmWorker has not noticed the migration yet
		return !resize.Suspended(err)
	}
	r.afterRun(report, drifted, err)
	if drifted {
		report.Notes = append(report.Notes, driftNote)
	}
	r.reportOnce(ctx, r.resultOf(max(desired.Generation, report.Target.Generation), report, err))
	return !resize.Suspended(err)
}

// resultOf returns the report of a run. A guest that still boots causes no failure.
func (r *resizer) resultOf(generation uint64, report resize.Report, err error) podapi.Report {
	if !errors.Is(err, resize.ErrIgnored) || r.booted || time.Since(r.since) > bootTime {
		return buildReport(generation, report, err)
	}
	waiting := buildReport(generation, report, nil)
	waiting.State = podapi.StateResizing
	waiting.Notes = append(waiting.Notes, bootNote)
	return waiting
}

// bootNote is the note of a report about a guest that has not followed its first resize.
const bootNote = "the guest has not begun to take memory and may still boot: retrying"

// driftNote is the note of a report about a VM that lost its desired size.
const driftNote = "another client changed the VM after its resize"

// hasDrifted reports whether a VM with the desired size has another one now. Without an answer of
// libvirt or the agent it has not: the next comparison follows soon.
func (r *resizer) hasDrifted(ctx context.Context, t target.Target) bool {
	observed, err := resize.Read(ctx, r.domain, r.Agent)
	return err == nil && !observed.Domain.Migrating && !resize.Reached(observed, t, r.policy())
}

// afterRun schedules the next attempt or comparison. The pauses grow while another client changes
// the VM again and again.
func (r *resizer) afterRun(report resize.Report, drifted bool, err error) {
	if err != nil {
		r.Log.Warn("the VM does not have the desired size", "error", err)
		r.doneGeneration = 0
		r.scheduleRetry()
		return
	}
	r.doneGeneration = report.Target.Generation
	r.booted = r.booted || len(report.Steps) > 0
	r.Log.Info("the VM has the desired size",
		"generation", r.doneGeneration, "steps", len(report.Steps))
	if drifted {
		r.scheduleRetry()
		return
	}
	r.retryDelay = 0
}

// policy returns the limits by the flags and by the node policy.
func (r *resizer) policy() resize.Policy { return r.Policy.Within(r.latest.Load().Policy) }

// runner returns a runner for the VM in its current state.
func (r *resizer) runner(ctx context.Context) *resize.Runner {
	overhead, err := r.overhead(ctx)
	if err != nil {
		r.Log.Debug("the launcher's overhead is unknown", "error", err)
	}
	return &resize.Runner{
		Domain: r.domain, Node: r.Agent, Journal: r.Journal, Policy: r.policy(), Log: r.Log,
		Progress: r.progressReporter(ctx, r.latest.Load().Generation), Overhead: overhead,
	}
}

// reportNotStarted reports why the resize could not start, and schedules a retry.
func (r *resizer) reportNotStarted(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	r.scheduleRetry()
	if r.isMigrating(ctx) {
		return
	}
	r.Log.Warn("cannot resize the VM now", "error", err)
	r.reportOnce(ctx, buildReport(r.latest.Load().Generation, resize.Report{}, err))
}

// scheduleRetry doubles the delay before the next attempt, within its bounds.
func (r *resizer) scheduleRetry() { r.retryDelay = min(max(2*r.retryDelay, minRetry), maxRetry) }
