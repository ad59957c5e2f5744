//go:build cgo && libvirt_dlopen

package coordinator_test

import (
	"testing"

	"github.com/mooring-vm/mooring/api/podapi"
)

// testLoweredLimit lowers the container's memory.max at each moment of a resize except the first,
// at which the shim would wait for the limit. The VM must have the new or the old size, and the
// report must match.
func (p *pod) testLoweredLimit(t *testing.T) {
	grown, failed := int64(booted+64*mi), 0
	for n := 2; ; n++ {
		p.mustResize(t, guestMemory(booted))
		if !p.atMoment(t, n, guestMemory(grown), func() {
			p.loweredLimit.Store(uint64(booted + gi))
		}) {
			break
		}
		r := p.outcome(t, p.agent.generation())
		want := grown
		if r.State == podapi.StateFailed {
			want = booted
			failed++
		}
		if s := p.read(t); s.Memory.Balloon != uint64(want) ||
			s.Memory.Devices[0].Requested != s.Memory.Devices[0].Current {
			t.Errorf("at moment %d: report %+v, memory %+v, want %d", n, r, s.Memory, want)
		}
		p.loweredLimit.Store(0)
	}
	if failed != 2 {
		t.Errorf("%d failures, want 2: at the moments before the request to the guest", failed)
	}
}
