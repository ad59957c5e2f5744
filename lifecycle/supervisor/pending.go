package supervisor

import (
	"maps"

	"github.com/mooring-vm/mooring/lifecycle/host"
)

// A scan can find an emulator of a launcher and leave open whether it is a VM process, because
// libvirt's records or the command line are unreadable. The tracker may lose the emulator before a
// scan decides. So the tie remembers it until its end.

// updatePending adds the undecided emulators of a scan to their ties, and removes decided and
// ended ones.
func (s *Supervisor) updatePending(result *scanResult) {
	found := map[host.Process]bool{}
	for _, p := range result.emulators {
		id := p.ID()
		found[id] = true
		if t := s.byGroup[p.Group]; t != nil && (result.inherited[id] || result.unread[id]) {
			t.pending[id] = true
		}
	}
	known := s.knownVMs()
	for _, t := range s.ties {
		maps.DeleteFunc(t.pending, func(p host.Process, _ bool) bool {
			decided := found[p] && !result.inherited[p] && !result.unread[p]
			return decided || known[p] || s.processEnded(p)
		})
	}
}
