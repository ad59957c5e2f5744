package coordinator

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/api/podapi"
	"github.com/mooring-vm/mooring/shim/resize"
	"github.com/mooring-vm/mooring/shim/virt"
)

// tellWithin is how long the agent has to take a report. A resize waits for it.
const reportTimeout = time.Second

// tell tells people, once of what fails again and again.
func (r *resizer) reportOnce(ctx context.Context, report podapi.Report) {
	news := failureKey{report.Generation, report.State, report.Error}
	if report.Error != "" && news == r.lastReported {
		return
	}
	r.lastReported = news
	r.send(ctx, report)
}

// progress returns what tells people how far a run is: its plan, and each step when it is
// done.
func (r *resizer) progressReporter(ctx context.Context, generation uint64) func(resize.Report) {
	return func(report resize.Report) {
		now := max(generation, report.Target.Generation)
		if r.retryDelay > 0 && now == generation {
			return // nobody wants to hear of each attempt
		}
		told := buildReport(now, report, nil)
		told.State = podapi.StateResizing
		r.reportOnce(ctx, told)
	}
}

// send tells the agent. What cannot be told is logged, and keeps nothing from going on.
func (r *resizer) send(ctx context.Context, report podapi.Report) {
	report = report.Fit()
	if err := r.sendWithRetry(ctx, report); err != nil && ctx.Err() == nil {
		r.Log.Warn("the agent was not told how the resize fares", "state", report.State, "error", err)
	}
}

// insist tells an agent that is away for a moment, or has heard too much, once it listens
// again; but not what is told again soon. One that was started again asks for a generation
// of its own.
func (r *resizer) sendWithRetry(ctx context.Context, report podapi.Report) error {
	for tries := 5; ; tries-- {
		err := r.sendOnce(ctx, report)
		away := errors.Is(err, resize.ErrAgent) || errors.Is(err, context.DeadlineExceeded)
		if !away || report.State == podapi.StateResizing || tries == 0 {
			return err
		}
		if err := sleep(ctx, time.Second); err != nil {
			return err
		}
	}
}

func (r *resizer) sendOnce(ctx context.Context, report podapi.Report) error {
	ctx, cancel := context.WithTimeout(ctx, reportTimeout)
	defer cancel()
	return r.Agent.Report(ctx, report)
}

// failure is what makes one failure the same as another, for people.
type failureKey struct {
	generation uint64
	state      podapi.State
	reason     string
}

// outcome is what people are told of a run.
func buildReport(generation uint64, r resize.Report, err error) podapi.Report {
	report := podapi.Report{Generation: generation, State: podapi.StateDone, Plan: lines(r.Plan), Notes: lines(r.Notes)}
	if isRefusal(err) || isForbidden(r, err) {
		report.State = podapi.StateRefused
	} else if err != nil {
		report.State = podapi.StateFailed
	}
	if err != nil {
		report.Error = line(err.Error())
	}
	for _, s := range r.Steps[max(0, len(r.Steps)-podapi.MaxLines):] {
		report.Steps = append(report.Steps, podapi.Step{
			Description: line(s.Description), Rollback: s.Rollback, Started: s.Started, Seconds: s.Took.Seconds(), Error: line(s.Error),
		})
	}
	if a := r.Actual; a != nil {
		report.Actual = &podapi.Actual{Memory: a.Memory, VCPUs: a.VCPUs, Online: a.Online, Quota: formatQuota(a), Shares: a.Shares}
	}
	return report
}

// refused reports whether nothing was done because it cannot be.
func isRefusal(err error) bool {
	refusal, invalid := (*resize.Refusal)(nil), (*api.InvalidError)(nil)
	return errors.As(err, &refusal) || errors.As(err, &invalid)
}

// forbidden reports whether the agent did not allow a step, and the VM is as it was.
func isForbidden(r resize.Report, err error) bool {
	stuck := func(s resize.StepReport) bool { return s.Rollback && s.Error != "" }
	return errors.Is(err, resize.ErrPolicy) && !r.TargetReached && !slices.ContainsFunc(r.Steps, stuck)
}

func formatQuota(a *resize.Actual) string {
	switch {
	case a.Quota == virt.Unlimited:
		return "none"
	case a.Period == 0:
		return ""
	}
	return a.Quota.Round(time.Microsecond).String() + " of each " + a.Period.String() + ", for each vCPU"
}

func lines(texts []string) []string {
	var all []string
	for _, t := range texts[:min(len(texts), podapi.MaxLines)] {
		all = append(all, line(t))
	}
	return all
}

// line makes a text one that a report may have.
func line(text string) string {
	text = strings.ToValidUTF8(text, "?")
	text = strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, text)
	for len(text) > podapi.MaxLine {
		_, size := utf8.DecodeLastRuneInString(text)
		text = text[:len(text)-size]
	}
	return text
}
