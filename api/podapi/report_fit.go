package podapi

import (
	"encoding/json"
	"fmt"
	"unicode/utf8"
)

// leastLine is the length at which [Report.Fit] stops shortening lines and drops some.
const leastLine = 64

// Fit returns the report with at most [MaxReport] bytes: see [Report.FitInto].
func (r Report) Fit() Report { return r.FitInto(MaxReport) }

// FitInto returns the report with as much of its lists as fits into this many bytes of JSON. First
// it shortens lines. Then it drops the oldest steps and the last lines of plan and notes, and adds
// a note. State, error and actual size stay; 7 KiB are always enough for them. The result passes
// Check. FitInto does not change r.
func (r Report) FitInto(bytes int) Report {
	for most := MaxLine; most >= leastLine; most /= 2 {
		if cut := r.withLines(most); cut.fits(bytes) {
			return cut
		}
	}
	short := r.withLines(leastLine)
	for keep := MaxLines / 2; keep > 0; keep /= 2 {
		if some := short.withLists(keep, bytes); some.fits(bytes) {
			return some
		}
	}
	return short.withLists(0, bytes)
}

func (r Report) fits(bytes int) bool {
	text, err := json.Marshal(r)
	return err == nil && len(text) <= bytes
}

// withLines shortens the lines of the lists.
func (r Report) withLines(most int) Report {
	r.Plan, r.Notes = cutAll(r.Plan, most), cutAll(r.Notes, most)
	steps := make([]Step, 0, len(r.Steps))
	for _, s := range r.Steps {
		s.Description, s.Error = cut(s.Description, most), cut(s.Error, most)
		steps = append(steps, s)
	}
	if len(steps) > 0 {
		r.Steps = steps
	}
	return r
}

// withLists keeps the last steps and the first lines of plan and notes.
func (r Report) withLists(keep, bytes int) Report {
	r.Steps = r.Steps[max(0, len(r.Steps)-keep):]
	r.Plan = r.Plan[:min(len(r.Plan), keep)]
	note := fmt.Sprintf("some of plan, steps and notes is left out: a report has at most %d "+
		"bytes here", bytes)
	r.Notes = append([]string{note}, r.Notes[:min(len(r.Notes), max(keep-1, 0))]...)
	return r
}

func cutAll(lines []string, most int) []string {
	var all []string
	for _, line := range lines {
		all = append(all, cut(line, most))
	}
	return all
}

// cut shortens a line at a character boundary and adds an ellipsis.
func cut(line string, most int) string {
	const mark = "..."
	if len(line) <= most {
		return line
	}
	end := most - len(mark)
	for !utf8.RuneStart(line[end]) {
		end--
	}
	return line[:end] + mark
}
