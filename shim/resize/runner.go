package resize

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/mooring-vm/mooring/shim/resize/target"
	"github.com/mooring-vm/mooring/shim/virt"
)

// Runner executes plans. Its methods must not run concurrently. A domain must have one Runner only.
type Runner struct {
	Domain  virt.Domain
	Node    Node
	Journal Journal
	Policy  Policy
	Log     *slog.Logger // nil: none

	// Overhead returns the launcher's overhead at any size. With it the memory requirement follows
	// the actual size of the VM, also after a failure. nil: it follows only a target reached.
	Overhead target.Overhead

	// Progress receives a report with each new plan and after each step, without Actual. The run
	// waits for its return. The callee owns the report. nil: no progress reports.
	Progress func(Report)
}

// TargetFunc returns the current target. The runner calls it between steps.
type TargetFunc func() target.Target

// Run resizes the VM to its target. It blocks until the target is reached, a step fails or ctx
// ends. If the target changes, the runner plans anew. It interrupts a step of the changed
// dimension, and rolls back if a dimension has no size any more. A wait for memory.max ends at
// once.
//
// If a step fails, the runner rolls back the steps of this run in reverse order, as far as
// possible. The report shows the actual size. A failed closing step (memory.max or memory-lock
// limit not lowered) causes no rollback.
//
// If ctx ends, a migration starts, or libvirt or the agent stay away, there is no rollback. The run
// stays in the journal, and [Runner.Recover] or another Run continues it.
//
// The error is a [*Refusal] without any change, or the failure. The report has the same text.
func (r *Runner) Run(ctx context.Context, desired TargetFunc) (Report, error) {
	u, end, err := r.start(ctx, desired)
	if err != nil {
		return Report{Error: errText(err)}, err
	}
	defer end()
	if previous, err := r.Journal.Load(); err == nil {
		u.previous = previous
	}
	return u.finish(ctx, u.converge(ctx))
}

// run is one run of a Runner.
type run struct {
	Runner
	handles
	reader
	desired         TargetFunc
	record          Record
	rollbackTarget  target.Target // at the start of the rollback
	report          Report
	required        uint64    // memory requirement set at the agent
	growth          uint64    // bytes that the plan adds to the guest
	previous        Record    // of the run before; empty without one
	fresh           *Observed // the latest observation; nil: a call may have changed the VM since
	changes         [2]<-chan struct{}
	holdsMigrations bool
	unfinished      bool  // the journal has, or should have, a run that has not ended
	closingErr      error // of closing steps
}

// start observes the domain once and subscribes to changes until end is called.
func (r *Runner) start(ctx context.Context, desired TargetFunc) (u *run, end func(), err error) {
	u = r.newRun(desired)
	o, err := u.observe(ctx)
	if err != nil {
		return nil, nil, err
	}
	u.fresh = &o
	u.record = Record{
		Domain: o.Domain.UUID, Start: o.Limits.Start, Phase: Running, Target: desired(),
	}
	listening, cancel := context.WithCancel(ctx)
	u.subscribe(listening)
	end = func() {
		cancel()
		u.releaseMigrations(ctx)
	}
	return u, end, nil
}

func (r *Runner) newRun(desired TargetFunc) *run {
	u := &run{Runner: *r, handles: handles{r.Domain, r.Node}, desired: desired}
	u.Policy = r.Policy.withDefaults()
	if u.Log == nil {
		u.Log = slog.New(slog.DiscardHandler)
	}
	return u
}

// converge plans and executes until the target is reached.
func (u *run) converge(ctx context.Context) error {
	for {
		changed, err := u.pursue(ctx, u.desired())
		switch {
		case errors.Is(err, errSuperseded): // a new target ended a rollback
		case err != nil || !changed:
			return err
		}
	}
}

// pursue plans once and executes the plan. It returns early if the target changes.
func (u *run) pursue(ctx context.Context, target target.Target) (changed bool, err error) {
	u.record.Target, u.report.Target, u.closingErr = target, target, nil
	o, err := u.observeForPlan(ctx, target)
	if err != nil {
		return false, u.suspend(err)
	}
	if err := u.checkUnusedVCPUs(o, target); err != nil {
		return false, u.handleFailure(ctx, err)
	}
	plan, err := MakePlan(o, target, u.Policy)
	if err != nil {
		return false, u.handleFailure(ctx, err)
	}
	u.growth = o.addedMemory(plan.Target)
	u.record.replacePlan(plan)
	u.report.Notes, u.report.Plan = plan.Notes, u.record.Steps.Descriptions()
	if len(plan.Steps) > 0 {
		u.unfinished = true
		u.reportProgress()
	}
	if changed, err = u.executePlan(ctx, plan); err != nil {
		return false, u.handleFailure(ctx, err)
	}
	return changed, nil
}

// executePlan executes the steps of a plan. It returns early if the target changes.
func (u *run) executePlan(ctx context.Context, p Plan) (changed bool, err error) {
	lowered := false
	for _, step := range p.Steps {
		if u.targetChanged(p) {
			return true, u.leaveTarget(ctx, nil)
		}
		if isClosing(step) && !lowered {
			lowered = true
			u.lowerRequirement(ctx)
		}
		err := u.perform(ctx, step)
		if errors.Is(err, errSuperseded) {
			return true, u.leaveTarget(ctx, step)
		}
		if err != nil && (!isClosing(step) || mustSuspend(err) || ctx.Err() != nil) {
			return false, err
		}
		u.closingErr = errors.Join(u.closingErr, err)
	}
	if u.targetChanged(p) {
		return true, nil
	}
	return false, nil
}

func (u *run) targetChanged(p Plan) bool { return u.desired().Generation != p.Target.Generation }

// suspended is the error of a run that left the VM as it is.
type suspended struct{ err error }

func (s *suspended) Error() string { return s.err.Error() }
func (s *suspended) Unwrap() error { return s.err }

// Suspended reports whether a run with this error left the VM as it is, for [Runner.Recover] to
// continue.
func Suspended(err error) bool { return errors.As(err, new(*suspended)) }

// suspend leaves the VM as it is and the run in the journal.
func (u *run) suspend(err error) error { return &suspended{err} }

// suspendIf suspends the run if libvirt or the agent stay away.
func (u *run) suspendIf(away bool, err error) error {
	if away {
		return u.suspend(err)
	}
	return err
}

// mustSuspend reports whether the VM must not be changed any further.
func mustSuspend(err error) bool {
	return Suspended(err) || errors.Is(err, ErrMigrating) || errors.Is(err, errRestarted)
}

// handleFailure rolls back the started steps, unless the run must be suspended. It returns
// errSuperseded if a new target ends the rollback.
func (u *run) handleFailure(ctx context.Context, err error) error {
	if ctx.Err() != nil || mustSuspend(err) {
		return u.suspend(err)
	}
	if u.record.Started == 0 {
		return err
	}
	rollbackErr := u.rollBack(ctx)
	if errors.Is(rollbackErr, errSuperseded) {
		return rollbackErr
	}
	if rollbackErr != nil {
		err = fmt.Errorf("%w; the rollback is incomplete: %w", err, rollbackErr)
	}
	return err
}

// finish observes the VM, and ends the run in the journal and in the report.
func (u *run) finish(ctx context.Context, err error) (Report, error) {
	err = errors.Join(err, u.closingErr)
	o, readErr := u.observeForReport(ctx)
	if readErr == nil && !Suspended(err) {
		err = errors.Join(err, u.setRequirement(ctx, o))
	}
	if readErr != nil {
		err = errors.Join(err, u.suspend(fmt.Errorf("the actual size is unknown: %w", readErr)))
	} else {
		actual := o.Actual()
		u.report.Actual = &actual
		u.report.TargetReached = Reached(o, u.report.Target, u.Policy)
		u.noteLoweredLimit(o)
	}
	u.report.Error = errText(err)
	if u.unfinished && !Suspended(err) {
		u.record.Phase, u.record.Report = Ended, &u.report
		if storeErr := u.Journal.Store(u.record); storeErr != nil {
			err = errors.Join(err, fmt.Errorf("write the journal: %w", storeErr))
			u.report.Error = errText(err)
		}
	}
	return u.report, err
}

// noteLoweredLimit adds a note if a limit fell below the requirement after the last step.
func (u *run) noteLoweredLimit(o Observed) {
	required := u.report.Target.MemoryRequirement()
	if limit := o.Limits.MemoryMax(); u.report.TargetReached && limit < required {
		u.report.Notes = append(u.report.Notes, fmt.Sprintf(
			"memory.max fell to %s, and the VM may need %s: the kernel kills the VM if it uses "+
				"more than memory.max",
			formatBytes(limit),
			formatBytes(required),
		))
	}
}

// Reached reports whether the VM has the size of a target: only closing steps are left.
func Reached(o Observed, t target.Target, p Policy) bool {
	plan, err := MakePlan(o, t, p)
	if err != nil {
		return false
	}
	for _, step := range plan.Steps {
		if !isClosing(step) {
			return false
		}
	}
	return true
}
