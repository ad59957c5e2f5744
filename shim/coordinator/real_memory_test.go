//go:build cgo && libvirt_dlopen

package coordinator_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/mooring-vm/mooring/api/podapi"
	"github.com/mooring-vm/mooring/shim/headroom"
	"github.com/mooring-vm/mooring/shim/virt"
)

// A guest that uses its memory cannot release it. After a timeout the shim reports the actual size,
// and the memory requirement covers it.
func TestGuestKeepsMemory(t *testing.T) {
	t.Parallel()
	for _, device := range []headroom.Device{headroom.VirtioMem, headroom.DIMM} {
		t.Run(string(device), func(t *testing.T) {
			t.Parallel()
			p := newPod(t)
			p.policy.Timeouts.Shrink = 4 * time.Second
			p.boot(t, headroom.Options{Device: device, Slots: 1}, "guest.use-memory")
			p.startShim(t)
			p.mustResize(t, guestMemory(2*booted))
			inUse := func() bool { return p.guestUsage(t) > booted+64*mi }
			eventually(t, inUse, func() { t.Fatal("the guest does not use its memory") })
			r := p.requestSize(t, guestMemory(booted))
			if r.State != podapi.StateFailed ||
				!strings.Contains(r.Error, "not confirmed within 4s") {
				t.Errorf("report %+v, want it failed", r)
			}
			s := p.read(t)
			if r.Actual == nil || r.Actual.Memory != s.Memory.Balloon ||
				r.Actual.Memory <= uint64(booted) {
				t.Errorf("actual %+v, memory %+v, want the guest's memory", r.Actual, s.Memory)
			}
			if d := s.Memory.Devices[0]; d.Model == virt.VirtioMem && d.Requested != d.Current {
				t.Errorf("%+v, want the request withdrawn", d)
			}
			if required := p.requirement.Load(); required < s.Memory.Balloon+uint64(gi) {
				t.Errorf("requirement %d, while the guest has %d", required, s.Memory.Balloon)
			}
		})
	}
}

// guestUsage returns the memory that the guest uses, by its console output.
func (p *pod) guestUsage(t *testing.T) (bytes int64) {
	t.Helper()
	for line := range strings.Lines(p.daemon.Console(t)) {
		var more int64
		if n, _ := fmt.Sscanf(line, "GUEST uses %d bytes more", &more); n == 1 {
			bytes += more
		}
	}
	return bytes
}
