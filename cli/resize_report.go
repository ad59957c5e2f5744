package cli

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/api/podapi"
)

// progress prints reports as they arrive, each line once.
type progress struct {
	out io.Writer

	anyReport bool
	planned   uint64 // generation of the printed plan; 0: none
	steps     map[podapi.Step]bool
	waitsFor  atomic.Pointer[string]
}

func newProgress(out io.Writer) *progress {
	return &progress{out: out, steps: map[podapi.Step]bool{}}
}

// current returns the text about the present wait. It is for concurrent use.
func (s *progress) current() string {
	if text := s.waitsFor.Load(); text != nil {
		return *text
	}
	return "waiting for a report from the pod"
}

// currentStep returns the text about the step after the reported ones.
func currentStep(r podapi.Report) string {
	done := len(r.Steps)
	switch {
	case slices.ContainsFunc(r.Steps, func(step podapi.Step) bool { return step.Rollback }):
		return "waiting for the rollback"
	case done < len(r.Plan):
		return fmt.Sprintf("waiting for step %d of %d: %s", done+1, len(r.Plan), r.Plan[done])
	}
	return "waiting for the end of the resize"
}

// show prints the new parts of a report. over is true for the last report, with its failure as
// error.
func (s *progress) show(r podapi.Report) (over bool, err error) {
	s.anyReport = true
	text := currentStep(r)
	s.waitsFor.Store(&text)
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

// stepKey identifies a step across reports. Reports may have cut texts.
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
		return true, fmt.Errorf("the pod could not resize its VM (%s): %s", r.State,
			oneLine(r.Error))
	}
	return false, nil
}

// showPlan prints the answer to a dry run.
func (p *Program) showPlan(r podapi.Report) error {
	if r.State != podapi.StatePlanned {
		return fmt.Errorf("the pod cannot resize its VM to this size (%s): %s", r.State,
			oneLine(r.Error))
	}
	printPlan(p.Out, r)
	if len(r.Plan) == 0 {
		fmt.Fprintln(p.Out, "nothing to do")
	}
	printNotes(p.Out, "", r)
	return nil
}

// timeoutError is the error after a timeout.
func (s *progress) timeoutError() error {
	if !s.anyReport {
		return errNoReport
	}
	return errors.New("the pod is still resizing its VM; `mooring inspect` shows the progress")
}

func stepLine(s podapi.Step) string {
	line := fmt.Sprintf("%s  %7.2fs  %s", s.Started.Local().Format(time.TimeOnly), s.Seconds,
		printable(s.Description))
	if s.Rollback {
		line += " (rolled back)"
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

// describeResize prints the pod's last report about a resize.
func describeResize(w io.Writer, r *agentapi.Resize, now time.Time) {
	if r == nil {
		return
	}
	report := r.Report
	age := ""
	if !r.Reported.IsZero() { // an older agent writes no time into its NodeState
		age = fmt.Sprintf(", reported %s ago",
			duration.HumanDuration(max(now.Sub(r.Reported), 0)))
	}
	fmt.Fprintf(w, "\nResize%s:\n", age)
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
