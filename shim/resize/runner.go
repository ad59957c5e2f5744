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
type Wish func() target.Target

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
func (r *Runner) Run(ctx context.Context, wish Wish) (Report, error) {
	u, end, err := r.begin(ctx, wish)
	if err != nil {
		return Report{Error: errText(err)}, err
	}
	defer end()
	if before, err := r.Journal.Load(); err == nil {
		u.before = before
	}
	return u.conclude(ctx, u.reach(ctx))
}

// run is one run of a Runner.
type run struct {
	Runner
	hands
	reader
	wish    Wish
	record  Record
	report  Report
	guarded uint64 // what the agent was told that limits must not fall below
	before  Record // of the run before; empty where there is none
	latest  *Is    // what the VM is; nil: something may have been done since it was read
	changes [2]<-chan struct{}
	holding bool // migrations are held off
	pending bool // the journal has, or should have, a run that has not ended
	closing error
}

// begin looks at the domain once, and listens to what changes until end is called.
func (r *Runner) begin(ctx context.Context, wish Wish) (u *run, end func(), err error) {
	u = r.newRun(wish)
	is, err := u.look(ctx)
	if err != nil {
		return nil, nil, err
	}
	u.record, u.latest = Record{Domain: is.Domain.UUID, Phase: Running, Target: wish()}, &is
	listening, cancel := context.WithCancel(ctx)
	u.listen(listening)
	end = func() {
		cancel()
		u.release(ctx)
	}
	return u, end, nil
}

func (r *Runner) newRun(wish Wish) *run {
	u := &run{Runner: *r, hands: hands{r.Domain, r.Node}, wish: wish}
	u.Policy = r.Policy.withDefaults()
	if u.Log == nil {
		u.Log = slog.New(slog.DiscardHandler)
	}
	return u
}

// reach plans and acts until the VM is as it is wanted.
func (u *run) reach(ctx context.Context) error {
	for {
		want := u.wish()
		u.record.Target, u.report.Target, u.closing = want, want, nil
		is, err := u.lookFor(ctx, want)
		if err != nil {
			return u.stay(err)
		}
		if err := u.doubt(is, want); err != nil {
			return u.failed(ctx, err)
		}
		plan, err := MakePlan(is, want, u.Policy)
		if err != nil {
			return u.failed(ctx, err)
		}
		u.record.adopt(plan)
		u.report.Notes, u.report.Plan = plan.Notes, u.record.Steps.Texts()
		if len(plan.Steps) > 0 {
			u.pending = true
			u.progress()
		}
		changed, err := u.carryOut(ctx, plan)
		if err != nil {
			return u.failed(ctx, err)
		}
		if !changed {
			return nil
		}
	}
}

// carryOut does the steps of a plan. It ends early when something else is wanted.
func (u *run) carryOut(ctx context.Context, p Plan) (changed bool, err error) {
	told := false
	for _, step := range p.Steps {
		if u.changed(p) {
			return true, nil
		}
		if closing(step) && !told {
			told = true
			u.settle(ctx, p.Target)
		}
		err := u.perform(ctx, step)
		if errors.Is(err, errSuperseded) {
			return true, nil
		}
		if err != nil && (!closing(step) || final(err) || ctx.Err() != nil) {
			return false, err
		}
		u.closing = errors.Join(u.closing, err)
	}
	if u.changed(p) {
		return true, nil
	}
	if !told {
		u.settle(ctx, p.Target)
	}
	return false, nil
}

func (u *run) changed(p Plan) bool { return u.wish().Generation != p.Target.Generation }

// settle tells the agent what the VM needs now that it is as wanted: limits may be as
// low as that.
func (u *run) settle(ctx context.Context, t target.Target) {
	need := t.MemoryRequirement()
	if need == 0 {
		return
	}
	if err := u.need(ctx, need); err != nil {
		u.closing = errors.Join(u.closing, fmt.Errorf("tell the agent what the VM needs: %w", err))
	}
}

// stopped is an error with which the VM is left as it is.
type stopped struct{ err error }

func (s *stopped) Error() string { return s.err.Error() }
func (s *stopped) Unwrap() error { return s.err }

// Left reports whether a run was left as it is, by its error: it is for
// [Runner.Recover] to go on with.
func Left(err error) bool { return errors.As(err, new(*stopped)) }

// stay leaves the VM as it is, and the run in the journal.
func (u *run) stay(err error) error { return &stopped{err} }

// stayIf does so where libvirt or the agent has stayed away.
func (u *run) stayIf(away bool, err error) error {
	if away {
		return u.stay(err)
	}
	return err
}

// final reports whether nothing more may be done to the VM.
func final(err error) bool {
	return Left(err) || errors.Is(err, ErrMigrating)
}

// failed undoes what was begun, unless the VM is to be left alone.
func (u *run) failed(ctx context.Context, err error) error {
	if ctx.Err() != nil || final(err) {
		return u.stay(err)
	}
	if u.record.Begun == 0 {
		return err
	}
	if undone := u.undo(ctx); undone != nil {
		err = fmt.Errorf("%w; and not all of it could be undone: %w", err, undone)
	}
	return err
}

// conclude reads what the VM is, and ends the run in the journal and in the report.
func (u *run) conclude(ctx context.Context, err error) (Report, error) {
	err = errors.Join(err, u.closing)
	is, unread := u.lookAtLast(ctx)
	if unread != nil {
		err = errors.Join(err, u.stay(fmt.Errorf("what the VM is now is not known: %w", unread)))
	} else {
		actual := is.Actual()
		u.report.Actual = &actual
		u.report.AsWanted = asWanted(is, u.report.Target, u.Policy)
		u.noteLowered(is)
	}
	u.report.Error = errText(err)
	if u.pending && !Left(err) {
		u.record.Phase, u.record.Report = Ended, &u.report
		if lost := u.Journal.Store(u.record); lost != nil {
			err = errors.Join(err, fmt.Errorf("write the journal: %w", lost))
			u.report.Error = errText(err)
		}
	}
	return u.report, err
}

// noteLowered tells of a limit that somebody has lowered after the last order was given.
func (u *run) noteLowered(is Is) {
	need := u.report.Target.MemoryRequirement()
	if limit := is.Seen.Max(); u.report.AsWanted && limit < need {
		u.report.Notes = append(u.report.Notes, fmt.Sprintf(
			"memory.max is %s by now, and the VM may need %s: who uses more than that is killed", show(limit), show(need)))
	}
}

// asWanted reports whether nothing is left to do but to wait for limits.
func asWanted(is Is, t target.Target, p Policy) bool {
	plan, err := MakePlan(is, t, p)
	if err != nil {
		return false
	}
	for _, step := range plan.Steps {
		if !closing(step) {
			return false
		}
	}
	return true
}
