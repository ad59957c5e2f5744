package coordinator

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/api/podapi"
	"github.com/mooring-vm/mooring/internal/plaintext"
	"github.com/mooring-vm/mooring/shim/resize"
	"github.com/mooring-vm/mooring/shim/virt"
)

// reportTimeout bounds one attempt to report. A resize waits for it.
const reportTimeout = time.Second

// reportOnce sends a report, but skips a failure that equals the last report.
func (r *resizer) reportOnce(ctx context.Context, report podapi.Report) {
	key := failureKey{report.Generation, report.State, report.Error}
	if report.Error != "" && key == r.lastReported {
		return
	}
	r.lastReported = key
	r.send(ctx, report)
}

// progressReporter returns a callback for a run's plan and for each finished step.
func (r *resizer) progressReporter(ctx context.Context, generation uint64) func(resize.Report) {
	return func(report resize.Report) {
		current := max(generation, report.Target.Generation)
		if r.retryDelay > 0 && current == generation {
			return // retries of a reported failure show no progress
		}
		progress := buildReport(current, report, nil)
		progress.State = podapi.StateResizing
		r.reportOnce(ctx, progress)
	}
}

// send sends a report to the agent. A failure is logged, and the resize continues.
func (r *resizer) send(ctx context.Context, report podapi.Report) {
	report = report.Fit()
	if err := r.sendWithRetry(ctx, report); err != nil && ctx.Err() == nil {
		r.Log.Warn("cannot report the resize to the agent", "state", report.State, "error", err)
	}
}

// sendWithRetry retries while the agent is away or limits the rate. It does not retry progress: the
// next report follows soon. A restarted agent sets a new generation, which causes a new report.
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

// failureKey identifies a failure for reportOnce.
type failureKey struct {
	generation uint64
	state      podapi.State
	reason     string
}

// buildReport converts the result of a run for the agent.
func buildReport(generation uint64, r resize.Report, err error) podapi.Report {
	report := podapi.Report{Generation: generation, State: podapi.StateDone, Plan: lines(r.Plan),
		Notes: lines(r.Notes)}
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
			Description: line(s.Description), Rollback: s.Rollback, Started: s.Started,
			Seconds: s.Took.Seconds(), Error: line(s.Error),
		})
	}
	if a := r.Actual; a != nil {
		report.Actual = &podapi.Actual{Memory: a.Memory, VCPUs: a.VCPUs, Online: a.Online,
			Quota: formatQuota(a), Shares: a.Shares}
	}
	return report
}

// isRefusal reports whether the resize was refused before any change.
func isRefusal(err error) bool {
	refusal, invalid := (*resize.Refusal)(nil), (*api.InvalidError)(nil)
	return errors.As(err, &refusal) || errors.As(err, &invalid)
}

// isForbidden reports whether the node's policy forbade a step, and the VM has its old size.
func isForbidden(r resize.Report, err error) bool {
	rollbackFailed := func(s resize.StepReport) bool { return s.Rollback && s.Error != "" }
	return errors.Is(err, resize.ErrPolicy) && !r.TargetReached &&
		!slices.ContainsFunc(r.Steps, rollbackFailed)
}

func formatQuota(a *resize.Actual) string {
	switch {
	case a.Quota == virt.Unlimited:
		return "none"
	case a.Period == 0:
		return ""
	}
	return a.Quota.Round(time.Microsecond).String() + " per " + a.Period.String() + " for each vCPU"
}

func lines(texts []string) []string {
	var all []string
	for _, t := range texts[:min(len(texts), podapi.MaxLines)] {
		all = append(all, line(t))
	}
	return all
}

// line makes a text printable, and short enough for a line of a report.
func line(text string) string {
	printable := plaintext.Printable(strings.ReplaceAll(text, "\n", " "), ' ')
	return plaintext.Cut(printable, podapi.MaxLine)
}
