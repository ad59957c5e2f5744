package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/api/podapi"
)

// progress shows reports as they come, each line once.
type progress struct {
	out    io.Writer
	dryRun bool

	heard   bool
	planned bool // the plan was shown
	steps   int  // that were shown
}

// show shows what is new in a report. over is true for the last one; then the error says
// what became of it.
func (s *progress) show(r podapi.Report) (over bool, err error) {
	if r.State == podapi.StatePlanned && !s.dryRun {
		return false, nil // of a dry run that somebody else has asked for
	}
	s.heard = true
	if !s.planned && len(r.Plan) > 0 {
		s.planned = true
		for i, step := range r.Plan {
			fmt.Fprintf(s.out, "plan %2d  %s\n", i+1, printable(step))
		}
	}
	for ; s.steps < len(r.Steps); s.steps++ {
		fmt.Fprintln(s.out, stepLine(r.Steps[s.steps]))
	}
	return s.end(r)
}

func (s *progress) end(r podapi.Report) (over bool, err error) {
	switch r.State {
	case podapi.StateDone:
		if s.dryRun {
			return false, nil // of what was wanted before
		}
		fmt.Fprintln(s.out, "done"+actualText(r.Actual))
		return true, nil
	case podapi.StatePlanned:
		if len(r.Plan) == 0 {
			fmt.Fprintln(s.out, "nothing to do")
		}
		return true, nil
	case podapi.StateFailed, podapi.StateRefused:
		return true, fmt.Errorf("the pod says that its VM could not be resized (%s): %s", r.State, oneLine(r.Error))
	}
	return false, nil
}

// late is the error of who has waited for too long.
func (s *progress) late(ctx context.Context, timeout time.Duration) error {
	switch {
	case !errors.Is(ctx.Err(), context.DeadlineExceeded):
		return ctx.Err()
	case !s.heard:
		return fmt.Errorf("waited for %s: %w", timeout, errSilent)
	}
	return fmt.Errorf("waited for %s: the pod says that it is still at work; `mooring inspect` shows how far it is", timeout)
}

func stepLine(s podapi.Step) string {
	line := fmt.Sprintf("%s  %7.2fs  %s", s.Started.Local().Format(time.TimeOnly), s.Seconds, printable(s.What))
	if s.Undo {
		line += " (taken back)"
	}
	if s.Error != "" {
		line += ": " + oneLine(s.Error)
	}
	return line
}

func actualText(a *podapi.Actual) string {
	if a == nil {
		return ""
	}
	text := fmt.Sprintf(": %s of memory, %d vCPUs", api.Bytes(min(a.Memory, 1<<62)), a.VCPUs)
	if a.Online >= 0 && a.Online != a.VCPUs {
		text += fmt.Sprintf(" (%d in use)", a.Online)
	}
	if a.Quota != "" {
		text += ", CPU quota " + printable(a.Quota)
	}
	return text
}

// describeResize shows what the pod has told last of its resizes, in its own words.
func describeResize(w io.Writer, r *agentapi.Resize, now time.Time) {
	if r == nil {
		return
	}
	report := r.Report
	fmt.Fprintf(w, "\nResize, as the pod told %s ago:\n", duration.HumanDuration(max(now.Sub(r.Reported), 0)))
	fmt.Fprintf(w, "  %s%s\n", report.State, actualText(report.Actual))
	if report.Error != "" {
		fmt.Fprintf(w, "  %s\n", oneLine(report.Error))
	}
	for i, step := range report.Plan {
		fmt.Fprintf(w, "  plan %2d  %s\n", i+1, printable(step))
	}
	for _, step := range report.Steps {
		fmt.Fprintf(w, "  %s\n", stepLine(step))
	}
	for _, note := range report.Notes {
		fmt.Fprintf(w, "  note: %s\n", printable(note))
	}
}
