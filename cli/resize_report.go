package cli

import (
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
	out io.Writer

	heard   bool
	planned uint64 // generation whose plan was shown; 0: none was
	steps   map[podapi.Step]bool
}

func newProgress(out io.Writer) progress { return progress{out: out, steps: map[podapi.Step]bool{}} }

// show shows what is new in a report. over is true for the last one; then the error says
// what became of it.
func (s *progress) show(r podapi.Report) (over bool, err error) {
	s.heard = true
	if s.planned != r.Generation && len(r.Plan) > 0 {
		s.planned = r.Generation
		printPlan(s.out, r)
	}
	for _, step := range r.Steps {
		if !s.steps[stepKey(step)] {
			s.steps[stepKey(step)] = true
			fmt.Fprintln(s.out, stepLine(step))
		}
	}
	return s.end(r)
}

// stepKey is what makes a step the same in another report, which may have its texts
// shorter.
func stepKey(s podapi.Step) podapi.Step {
	return podapi.Step{Rollback: s.Rollback, Started: s.Started.UTC(), Seconds: s.Seconds}
}

func printPlan(w io.Writer, r podapi.Report) {
	for i, step := range r.Plan {
		fmt.Fprintf(w, "plan %2d  %s\n", i+1, printable(step))
	}
}

func printNotes(w io.Writer, indent string, r podapi.Report) {
	for _, note := range r.Notes {
		fmt.Fprintf(w, "%snote: %s\n", indent, printable(note))
	}
}

func (s *progress) end(r podapi.Report) (over bool, err error) {
	switch r.State {
	case podapi.StateDone, podapi.StateFailed, podapi.StateRefused:
		printNotes(s.out, "", r)
	}
	switch r.State {
	case podapi.StateDone:
		fmt.Fprintln(s.out, "done"+actualText(r.Actual))
		return true, nil
	case podapi.StateFailed, podapi.StateRefused:
		return true, fmt.Errorf("the pod says that its VM could not be resized (%s): %s", r.State, oneLine(r.Error))
	}
	return false, nil
}

// showPlan shows the answer to a dry run.
func (p *Program) showPlan(r podapi.Report) error {
	if r.State != podapi.StatePlanned {
		return fmt.Errorf("the pod says that its VM cannot be resized so (%s): %s", r.State, oneLine(r.Error))
	}
	printPlan(p.Out, r)
	if len(r.Plan) == 0 {
		fmt.Fprintln(p.Out, "nothing to do")
	}
	printNotes(p.Out, "", r)
	return nil
}

// late is the error of who has waited for too long.
func (s *progress) late() error {
	if !s.heard {
		return errSilent
	}
	return errors.New("the pod says that it is still at work; `mooring inspect` shows how far it is")
}

func stepLine(s podapi.Step) string {
	line := fmt.Sprintf("%s  %7.2fs  %s", s.Started.Local().Format(time.TimeOnly), s.Seconds, printable(s.Description))
	if s.Rollback {
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
	if a.Shares != 0 {
		text += fmt.Sprintf(", %d CPU shares", a.Shares)
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
	printNotes(w, "  ", report)
}
