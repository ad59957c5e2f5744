package resize

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/mooring-vm/mooring/shim/resize/target"
	"github.com/mooring-vm/mooring/shim/virt"
)

// Runner carries plans out. Its methods must not be called at once, nor two Runners be
// used for one domain.
type Runner struct {
	Domain  virt.Domain
	Node    Node
	Journal Journal
	Policy  Policy
	Log     *slog.Logger // nil: none

	// Progress is told of a plan before its first step, and after each step. The run
	// waits for it. The caller owns the report, which has no end yet. nil: nobody is told.
	Progress func(Report)
}

// Wish returns the wanted state of the moment. It is asked between steps.
type TargetFunc func() target.Target

// Run makes the VM what it is wanted to be, and blocks until it is, a step fails or ctx
// is done. If the wanted state changes meanwhile, the step that is under way is ended,
// and planned anew; a wait for memory.max ends at once.
//
// If a step fails, all that this run has done is undone in reverse, as far as it can be.
// The report tells what the VM is then. A failure of the steps that follow when the VM
// is as wanted (memory.max and memory lock that do not get lower) undoes nothing.
//
// Nothing is undone when ctx ends, a migration begins or libvirt or the agent stay away:
// the run is left in the journal, and [Runner.Recover] or another Run takes over.
//
// The error is a [*Refusal] with nothing changed, or what failed. It is also in the
// report.
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
	report          Report
	required        uint64    // what the agent was told that limits must not fall below
	previous        Record    // of the run before; empty where there is none
	fresh           *Observed // what the VM is; nil: something may have been done since it was read
	changes         [2]<-chan struct{}
	holdsMigrations bool // migrations are held off
	unfinished      bool // the journal has, or should have, a run that has not ended
	closingErr      error
}

// begin looks at the domain once, and listens to what changes until end is called.
func (r *Runner) start(ctx context.Context, desired TargetFunc) (u *run, end func(), err error) {
	u = r.newRun(desired)
	o, err := u.observe(ctx)
	if err != nil {
		return nil, nil, err
	}
	u.record, u.fresh = Record{Domain: o.Domain.UUID, Phase: Running, Target: desired()}, &o
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

// reach plans and acts until the VM is as it is wanted.
func (u *run) converge(ctx context.Context) error {
	for {
		target := u.desired()
		u.record.Target, u.report.Target, u.closingErr = target, target, nil
		o, err := u.observeForPlan(ctx, target)
		if err != nil {
			return u.suspend(err)
		}
		if err := u.checkUnusedVCPUs(o, target); err != nil {
			return u.handleFailure(ctx, err)
		}
		plan, err := MakePlan(o, target, u.Policy)
		if err != nil {
			return u.handleFailure(ctx, err)
		}
		u.record.replacePlan(plan)
		u.report.Notes, u.report.Plan = plan.Notes, u.record.Steps.Descriptions()
		if len(plan.Steps) > 0 {
			u.unfinished = true
			u.reportProgress()
		}
		changed, err := u.executePlan(ctx, plan)
		if err != nil {
			return u.handleFailure(ctx, err)
		}
		if !changed {
			return nil
		}
	}
}

// carryOut does the steps of a plan. It ends early when something else is wanted.
func (u *run) executePlan(ctx context.Context, p Plan) (changed bool, err error) {
	lowered := false
	for _, step := range p.Steps {
		if u.targetChanged(p) {
			return true, nil
		}
		if isClosing(step) && !lowered {
			lowered = true
			u.lowerRequirement(ctx, p.Target)
		}
		err := u.perform(ctx, step)
		if errors.Is(err, errSuperseded) {
			return true, nil
		}
		if err != nil && (!isClosing(step) || mustSuspend(err) || ctx.Err() != nil) {
			return false, err
		}
		u.closingErr = errors.Join(u.closingErr, err)
	}
	if u.targetChanged(p) {
		return true, nil
	}
	if !lowered {
		u.lowerRequirement(ctx, p.Target)
	}
	return false, nil
}

func (u *run) targetChanged(p Plan) bool { return u.desired().Generation != p.Target.Generation }

// settle tells the agent what the VM needs now that it is as wanted: limits may be as
// low as that.
func (u *run) lowerRequirement(ctx context.Context, t target.Target) {
	required := t.MemoryRequirement()
	if required == 0 {
		return
	}
	if err := u.requireMemory(ctx, required); err != nil {
		u.closingErr = errors.Join(u.closingErr, fmt.Errorf("tell the agent what the VM needs: %w", err))
	}
}

// stopped is an error with which the VM is left as it is.
type suspended struct{ err error }

func (s *suspended) Error() string { return s.err.Error() }
func (s *suspended) Unwrap() error { return s.err }

// Left reports whether a run was left as it is, by its error: it is for
// [Runner.Recover] to go on with.
func Suspended(err error) bool { return errors.As(err, new(*suspended)) }

// stay leaves the VM as it is, and the run in the journal.
func (u *run) suspend(err error) error { return &suspended{err} }

// stayIf does so where libvirt or the agent has stayed away.
func (u *run) suspendIf(away bool, err error) error {
	if away {
		return u.suspend(err)
	}
	return err
}

// final reports whether nothing more may be done to the VM.
func mustSuspend(err error) bool {
	return Suspended(err) || errors.Is(err, ErrMigrating)
}

// failed undoes what was begun, unless the VM is to be left alone.
func (u *run) handleFailure(ctx context.Context, err error) error {
	if ctx.Err() != nil || mustSuspend(err) {
		return u.suspend(err)
	}
	if u.record.Started == 0 {
		return err
	}
	if rollbackErr := u.rollBack(ctx); rollbackErr != nil {
		err = fmt.Errorf("%w; and not all of it could be undone: %w", err, rollbackErr)
	}
	return err
}

// conclude reads what the VM is, and ends the run in the journal and in the report.
func (u *run) finish(ctx context.Context, err error) (Report, error) {
	err = errors.Join(err, u.closingErr)
	o, readErr := u.observeForReport(ctx)
	if readErr != nil {
		err = errors.Join(err, u.suspend(fmt.Errorf("what the VM is now is not known: %w", readErr)))
	} else {
		actual := o.Actual()
		u.report.Actual = &actual
		u.report.TargetReached = matchesTarget(o, u.report.Target, u.Policy)
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

// noteLowered tells of a limit that somebody has lowered after the last order was given.
func (u *run) noteLoweredLimit(o Observed) {
	required := u.report.Target.MemoryRequirement()
	if limit := o.Limits.MemoryMax(); u.report.TargetReached && limit < required {
		u.report.Notes = append(u.report.Notes, fmt.Sprintf(
			"memory.max is %s by now, and the VM may need %s: who uses more than that is killed", formatBytes(limit), formatBytes(required)))
	}
}

// asWanted reports whether nothing is left to do but to wait for limits.
func matchesTarget(o Observed, t target.Target, p Policy) bool {
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
