package podserver_test

import (
	"testing"
	"time"

	"github.com/mooring-vm/mooring/api/podapi"
	"github.com/mooring-vm/mooring/shim/agent"
)

// Two VMs cannot grow into the same free memory of the node, which is 8Gi.
func TestGrowthIsReserved(t *testing.T) {
	r := newRig(t)
	a, b := agent.New(r.serve(t, "a")), agent.New(r.serve(t, "b"))
	available := func(of *agent.Client) uint64 {
		t.Helper()
		limits, err := of.Limits(t.Context())
		must(t, err)
		return limits.Available
	}
	must(t, a.Hold(t.Context(), time.Minute, 5*gi))
	if own, other := available(a), available(b); own != 8*gi || other != 3*gi {
		t.Errorf("available: %d and %d, want 8Gi and 3Gi", own, other)
	}
	wantCode(t, b.Hold(t.Context(), time.Minute, 4*gi), podapi.CodeNoMemory)
	must(t, b.Hold(t.Context(), time.Minute, 3*gi))
	must(t, a.Hold(t.Context(), time.Minute, 5*gi)) // renewed
	wantCode(t, a.Hold(t.Context(), time.Minute, 6*gi), podapi.CodeNoMemory)
	must(t, b.Hold(t.Context(), 0, 0))
	if got := available(a); got != 8*gi {
		t.Errorf("available %d after the other resize, want 8Gi", got)
	}
	must(t, a.Hold(t.Context(), time.Minute, 0)) // a shrink
	if got := available(b); got != 8*gi {
		t.Errorf("available %d beside a shrink, want 8Gi", got)
	}
}
