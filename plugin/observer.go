package plugin

import (
	"time"

	"github.com/mooring-vm/mooring/api/policy"
	"github.com/mooring-vm/mooring/decide"
)

// Outcome is the result of a launcher container's creation.
type Outcome string

// The outcomes.
const (
	OutcomeSet Outcome = "set" // with all requested settings, or without any
	// the same, and its spec had the memory lock already
	OutcomeYielded     Outcome = "yielded"
	OutcomeRefused     Outcome = "refused"      // not created
	OutcomeWouldSet    Outcome = "would-set"    // observe mode
	OutcomeWouldRefuse Outcome = "would-refuse" // observe mode
	OutcomeFailed      Outcome = "failed"       // its pod directory could not be created
)

// Observer counts the plugin's work. Its methods must not block, and several goroutines may call
// them at once.
type Observer interface {
	// Request is called for each NRI request, with its method's name.
	Request(method string, took time.Duration, err error)

	// Decided is called for each creation of a launcher container.
	Decided(outcome Outcome)

	// Connection is called for each change of the connection's state. It must not call
	// [Connection.Status].
	Connection(status Status)

	// StubAbandoned is called for a stub that does not stop. Its goroutines leak.
	StubAbandoned()
}

// NopObserver is an Observer without effect.
type NopObserver struct{}

// Request implements [Observer].
func (NopObserver) Request(string, time.Duration, error) {}

// Decided implements [Observer].
func (NopObserver) Decided(Outcome) {}

// Connection implements [Observer].
func (NopObserver) Connection(Status) {}

// StubAbandoned implements [Observer].
func (NopObserver) StubAbandoned() {}

// outcomeOf returns the outcome of a decision about a launcher.
func outcomeOf(d decide.Decision) Outcome {
	observe := d.Mode != policy.Enforce
	switch {
	case d.Refusal != nil && observe:
		return OutcomeWouldRefuse
	case d.Refusal != nil:
		return OutcomeRefused
	case observe:
		return OutcomeWouldSet
	case d.Yield:
		return OutcomeYielded
	}
	return OutcomeSet
}
