package podapi

import (
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// State is what a resize is doing.
type State string

// The states of a resize.
const (
	StateIdle     State = "Idle"     // nothing was asked for yet
	StatePlanned  State = "Planned"  // of a dry run: this would be done
	StateResizing State = "Resizing" // a plan is being carried out
	StateDone     State = "Done"     // the VM is as it is wanted
	StateFailed   State = "Failed"   // it is not; Error says why
	StateRefused  State = "Refused"  // it cannot become so, and nothing was done
)

// Bounds of a report.
const (
	MaxLines = 64  // in each list
	MaxLine  = 512 // bytes
)

// Report is what a pod tells of its resizes. It is shown to people as the pod's own
// words, and decides nothing.
type Report struct {
	Generation uint64   `json:"generation"`       // of the [Desired] that it is about, or of its [DryRun]
	DryRun     bool     `json:"dryRun,omitempty"` // it answers a dry run
	State      State    `json:"state"`
	Plan       []string `json:"plan,omitempty"` // what each step does, in order, also those that are done
	Steps      []Step   `json:"steps,omitempty"`
	Notes      []string `json:"notes,omitempty"`
	Error      string   `json:"error,omitempty"`
	Actual     *Actual  `json:"actual,omitempty"` // nil: not known
}

// Step is a step that was begun.
type Step struct {
	Description string    `json:"what"`
	Rollback    bool      `json:"undo,omitempty"` // it takes back another
	Started     time.Time `json:"started"`
	Seconds     float64   `json:"seconds"`         // that it took
	Error       string    `json:"error,omitempty"` // it was not confirmed; empty: it was
}

// Actual is what the VM is.
type Actual struct {
	Memory uint64 `json:"memory"`          // bytes that the guest has
	VCPUs  int    `json:"vcpus"`           // that are plugged
	Online int    `json:"online"`          // that the guest uses; -1: not known
	Quota  string `json:"quota,omitempty"` // CPU bandwidth of the VM, for people

	// Shares are the VM's CPU shares; 0: not known.
	Shares uint64 `json:"shares,omitempty"`
}

// String returns what Events tell: "4Gi, 4 vCPUs".
func (a Actual) String() string { return fmt.Sprintf("%s, %d vCPUs", Amount(a.Memory), a.VCPUs) }

// Check returns an error that names the field, its value and what is allowed.
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

// checkDryRun checks that a plan is reported of a dry run, and nothing that was done.
func (r Report) checkDryRun() error {
	switch planned := r.State == StatePlanned; {
	case planned && !r.DryRun:
		return fmt.Errorf("state: %s: want dryRun with it", r.State)
	case r.DryRun && !planned && r.State != StateRefused && r.State != StateFailed:
		return fmt.Errorf("state: %s: want %s, %s or %s of a dry run", r.State, StatePlanned, StateRefused, StateFailed)
	}
	return nil
}

func checkLines(field string, lines []string) error {
	if len(lines) > MaxLines {
		return fmt.Errorf("%s: %d lines: want at most %d", field, len(lines), MaxLines)
	}
	return checkTexts(field, lines)
}

// checkTexts checks that each text can be shown in one line.
func checkTexts(field string, texts []string) error {
	unprintable := func(r rune) bool { return !unicode.IsPrint(r) }
	for _, t := range texts {
		if len(t) > MaxLine || !utf8.ValidString(t) || strings.ContainsFunc(t, unprintable) {
			return fmt.Errorf("%s: %.40q: want lines of printable text, at most %d bytes each", field, t, MaxLine)
		}
	}
	return nil
}
