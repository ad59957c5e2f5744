package supervisor

import (
	"maps"

	"github.com/mooring-vm/mooring/lifecycle/host"
)

// updatePending adds the undecided emulators of a scan to their ties. A scan cannot decide whether
// an emulator is a VM process while libvirt's records or the command line are unreadable. The
// tracker may lose the emulator meanwhile. So the tie keeps it until a scan decides or the process
// ends. Until then no stop is confirmed and the tie is not dropped.
func (s *Supervisor) updatePending(result *scanResult) {
	found := map[host.Process]bool{}
	for _, p := range result.emulators {
		id := p.ID()
		found[id] = true
		if t := s.byGroup[p.Group]; t != nil && result.undecided(id) {
			t.pending[id] = true
		}
	}
	known := s.knownVMs()
	for _, t := range s.ties {
		maps.DeleteFunc(t.pending, func(p host.Process, _ bool) bool {
			decided := found[p] && !result.undecided(p)
			return decided || known[p] || s.processEnded(p)
		})
	}
}
