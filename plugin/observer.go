package plugin

import (
	"time"

	"github.com/mooring-vm/mooring/api/policy"
	"github.com/mooring-vm/mooring/decide"
)

// Outcome is what became of a launcher container that was to be created.
type Outcome string

// The outcomes of a decision.
const (
	OutcomeSet         Outcome = "set"          // it got what it asked for, or asked for nothing
	OutcomeYielded     Outcome = "yielded"      // the same, but its spec had the memory lock already
	OutcomeRefused     Outcome = "refused"      // its creation failed
	OutcomeWouldSet    Outcome = "would-set"    // observe mode
	OutcomeWouldRefuse Outcome = "would-refuse" // observe mode
	OutcomeFailed      Outcome = "failed"       // its pod directory could not be made
)

// Observer counts what the plugin does. Its methods must not block and may be
// called from several goroutines at once.
type Observer interface {
	// Request is called for each NRI request, by its method's name.
	Request(method string, took time.Duration, err error)

	// Decided is called for each launcher container that was to be created.
	Decided(outcome Outcome)

	// Connection is called for each change of the connection's state. It must
	// not ask the connection for it.
	Connection(status Status)

	// StubAbandoned is called for a connection attempt that could not be
	// brought to an end, so its goroutines are left behind.
	StubAbandoned()
}

// NopObserver observes nothing.
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
