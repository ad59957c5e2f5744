package lifecycletest

import (
	"slices"
	"sync"

	"github.com/mooring-vm/mooring/api/agentapi"
)

// Recorder is a [registry.Recorder] in memory.
type Recorder struct {
	mu     sync.Mutex
	events []agentapi.Event
}

// Record implements [registry.Recorder].
func (r *Recorder) Record(e agentapi.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, e)
}

// Events returns the recorded events, in order.
func (r *Recorder) Events() []agentapi.Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.events)
}

// Reasons returns the reasons of the recorded events, in order.
func (r *Recorder) Reasons() []agentapi.Reason {
	var reasons []agentapi.Reason
	for _, e := range r.Events() {
		reasons = append(reasons, e.Reason)
	}
	return reasons
}
