//go:build cgo && libvirt_dlopen

package coordinator_test

import (
	"testing"

	"github.com/mooring-vm/mooring/api/podapi"
)

// testLimitLowered: somebody else lowers the container's memory.max in the middle of a
// resize, at whichever moment but the first, at which the VM would wait for the limit. The
// VM is as wanted or as before, and people are told which.
func (p *pod) testLoweredLimit(t *testing.T) {
	grown, failed := int64(booted+64*mi), 0
	for n := 2; ; n++ {
		p.mustResize(t, guestMemory(booted))
		if !p.atMoment(t, n, guestMemory(grown), func() { p.loweredLimit.Store(uint64(booted + gi)) }) {
			break
		}
		r := p.outcome(t, p.agent.generation())
		want := grown
		if r.State == podapi.StateFailed {
			want = booted
			failed++
		}
		if s := p.read(t); s.Memory.Balloon != uint64(want) || s.Memory.Devices[0].Requested != s.Memory.Devices[0].Current {
			t.Errorf("at moment %d: report %+v, memory %+v, want %d", n, r, s.Memory, want)
		}
		p.loweredLimit.Store(0)
	}
	if failed != 2 {
		t.Errorf("it failed %d times, want that it does when the limit is lowered before the guest is asked", failed)
	}
}
