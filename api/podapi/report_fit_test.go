package podapi_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/mooring-vm/mooring/api/podapi"
)

// largest returns a report at the limits of Check, with lines of this text.
func largest(text string) podapi.Report {
	line := strings.Repeat(text, podapi.MaxLine/len(text))
	r := podapi.Report{Generation: 7, State: podapi.StateFailed, Error: line,
		Actual: &podapi.Actual{Memory: 1 << 40, VCPUs: 4, Online: -1, Quota: line}}
	for range podapi.MaxLines {
		r.Plan, r.Notes = append(r.Plan, line), append(r.Notes, line)
		r.Steps = append(r.Steps, podapi.Step{Description: line, Started: time.Now(),
			Seconds: 1.0 / 3, Error: line})
	}
	return r
}

// check checks that a shortened report passes Check and keeps the result of the resize.
func check(t interface {
	Helper()
	Errorf(format string, args ...any)
}, was, is podapi.Report) {
	t.Helper()
	text, err := json.Marshal(is)
	if err != nil || len(text) > podapi.MaxReport {
		t.Errorf("%d bytes, %v: want at most %d", len(text), err, podapi.MaxReport)
	}
	if err := is.Check(); err != nil {
		t.Errorf("it is not taken: %v", err)
	}
	was.Plan, was.Steps, was.Notes, is.Plan, is.Steps, is.Notes = nil, nil, nil, nil, nil, nil
	if diff := cmp.Diff(was, is); diff != "" {
		t.Errorf("the rest is another (-want +got)\n%s", diff)
	}
}

// JSON may write a character as six bytes.
func TestFit(t *testing.T) {
	for _, text := range []string{"a", "<", "\u00e4", "\u2713", "\U00010348"} {
		was := largest(text)
		is := was.Fit()
		check(t, was, is)
		if len(is.Steps) == 0 ||
			!is.Steps[len(is.Steps)-1].Started.Equal(was.Steps[podapi.MaxLines-1].Started) {
			t.Errorf("%q: steps %+v, want the last ones", text, is.Steps)
		}
		if len(is.Steps) < podapi.MaxLines &&
			(len(is.Notes) == 0 || !strings.Contains(is.Notes[0], "left out")) {
			t.Errorf("%q: notes %q, want that something is left out", text, is.Notes)
		}
		if diff := cmp.Diff(largest(text).Plan, was.Plan); diff != "" {
			t.Errorf("%q: the report that was given is another\n%s", text, diff)
		}
	}
}

func TestFitLeavesWhatFits(t *testing.T) {
	was := podapi.Report{State: podapi.StateDone,
		Notes: []string{strings.Repeat("n", podapi.MaxLine)}}
	for i := range podapi.MaxLines {
		was.Plan = append(was.Plan, fmt.Sprintf("step %d", i))
		was.Steps = append(was.Steps, podapi.Step{Description: was.Plan[i], Seconds: 1})
	}
	if diff := cmp.Diff(was, was.Fit()); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if diff := cmp.Diff(podapi.Report{State: podapi.StateIdle},
		podapi.Report{State: podapi.StateIdle}.Fit()); diff != "" {
		t.Errorf("nothing (-want +got)\n%s", diff)
	}
}

func TestFitAny(t *testing.T) {
	line := rapid.StringOfN(rapid.SampledFrom([]rune("a <&\u00e4\u2713\U00010348")), 0,
		podapi.MaxLine, podapi.MaxLine)
	lines := rapid.SliceOfN(line, 0, podapi.MaxLines)
	rapid.Check(t, func(t *rapid.T) {
		was := podapi.Report{State: podapi.StateFailed, Plan: lines.Draw(t, "plan"),
			Notes: lines.Draw(t, "notes"), Error: line.Draw(t, "error")}
		for _, what := range lines.Draw(t, "steps") {
			was.Steps = append(was.Steps, podapi.Step{Description: what, Error: was.Error})
		}
		check(t, was, was.Fit())
	})
}

// Events have less space. The longest error fits there, too.
func TestFitInto(t *testing.T) {
	was := largest("<")
	for _, bytes := range []int{7 << 10, 8 << 10} {
		is := was.FitInto(bytes)
		text, err := json.Marshal(is)
		if err != nil || len(text) > bytes {
			t.Errorf("%d bytes, %v: want at most %d", len(text), err, bytes)
		}
		check(t, was, is)
		if len(is.Notes) == 0 || !strings.Contains(is.Notes[0], fmt.Sprint(bytes)) {
			t.Errorf("notes %q, want that something is left out of %d bytes", is.Notes, bytes)
		}
	}
}
