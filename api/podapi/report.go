package podapi

import (
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// State is the progress of a resize.
type State string

// The states of a resize.
const (
	StateIdle     State = "Idle"     // no size was requested yet
	StatePlanned  State = "Planned"  // dry run: the plan, without any step
	StateResizing State = "Resizing" // the steps of a plan are under way
	StateDone     State = "Done"     // the VM has the desired size
	StateFailed   State = "Failed"   // the VM has another size; Error says why
	StateRefused  State = "Refused"  // the VM cannot get the desired size, and the pod took no step
)

// Bounds of a report.
const (
	MaxLines = 64  // in each list
	MaxLine  = 512 // bytes
)

// Report is a pod's report of its resizes. The agent shows it to people as the pod's own words, and
// makes no decision by it.
type Report struct {
	Generation uint64   `json:"generation"`       // of the [Desired] or the [DryRun]
	DryRun     bool     `json:"dryRun,omitempty"` // the report answers a dry run
	State      State    `json:"state"`
	Plan       []string `json:"plan,omitempty"` // all steps in order, with finished ones
	Steps      []Step   `json:"steps,omitempty"`
	Notes      []string `json:"notes,omitempty"`
	Error      string   `json:"error,omitempty"`
	Actual     *Actual  `json:"actual,omitempty"` // nil: unknown
}

// Step is a step that has started.
type Step struct {
	Description string    `json:"what"`
	Rollback    bool      `json:"undo,omitempty"` // the step takes back another one
	Started     time.Time `json:"started"`
	Seconds     float64   `json:"seconds"`         // duration
	Error       string    `json:"error,omitempty"` // the step failed; empty: it is confirmed
}

// Actual is the size of a VM as the guest has confirmed it.
type Actual struct {
	Memory uint64 `json:"memory"`          // bytes of the guest
	VCPUs  int    `json:"vcpus"`           // plugged vCPUs
	Online int    `json:"online"`          // vCPUs that the guest uses; -1: unknown
	Quota  string `json:"quota,omitempty"` // CPU bandwidth of the VM, as text for people

	// Shares are the VM's CPU shares; 0: unknown.
	Shares uint64 `json:"shares,omitempty"`
}

// String returns the text in Events: "4Gi, 4 vCPUs".
func (a Actual) String() string { return fmt.Sprintf("%s, %d vCPUs", Amount(a.Memory), a.VCPUs) }

// Check returns an error with the field, its value and the allowed values.
func (r Report) Check() error {
	switch r.State {
	case StateIdle, StatePlanned, StateResizing, StateDone, StateFailed, StateRefused:
	default:
		return fmt.Errorf("state: %.40q: want one of %s, %s, %s, %s, %s, %s", r.State,
			StateIdle, StatePlanned, StateResizing, StateDone, StateFailed, StateRefused)
	}
	if err := r.checkDryRun(); err != nil {
		return err
	}
	if err := checkLines("plan", r.Plan); err != nil {
		return err
	}
	if err := checkLines("notes", r.Notes); err != nil {
		return err
	}
	texts := []string{r.Error}
	if r.Actual != nil {
		texts = append(texts, r.Actual.Quota)
	}
	for _, s := range r.Steps {
		texts = append(texts, s.Description, s.Error)
	}
	if len(r.Steps) > MaxLines {
		return fmt.Errorf("steps: %d of them: want at most %d", len(r.Steps), MaxLines)
	}
	return checkTexts("steps, error", texts)
}

// checkDryRun checks that the report of a dry run has a state of a dry run.
func (r Report) checkDryRun() error {
	switch planned := r.State == StatePlanned; {
	case planned && !r.DryRun:
		return fmt.Errorf("state: %s: want dryRun with it", r.State)
	case r.DryRun && !planned && r.State != StateRefused && r.State != StateFailed:
		return fmt.Errorf("state: %s: want %s, %s or %s for a dry run", r.State, StatePlanned,
			StateRefused, StateFailed)
	}
	return nil
}

func checkLines(field string, lines []string) error {
	if len(lines) > MaxLines {
		return fmt.Errorf("%s: %d lines: want at most %d", field, len(lines), MaxLines)
	}
	return checkTexts(field, lines)
}

// checkTexts checks that each text is one printable line.
func checkTexts(field string, texts []string) error {
	unprintable := func(r rune) bool { return !unicode.IsPrint(r) }
	for _, t := range texts {
		if len(t) > MaxLine || !utf8.ValidString(t) || strings.ContainsFunc(t, unprintable) {
			return fmt.Errorf("%s: %.40q: want lines of printable text, at most %d bytes each",
				field, t, MaxLine)
		}
	}
	return nil
}
