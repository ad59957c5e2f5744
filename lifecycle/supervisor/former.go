package supervisor

import (
	"iter"
	"maps"

	"github.com/mooring-vm/mooring/lifecycle/host"
)

// maxFormer bounds the former launchers.
const maxFormer = 1024

// keepFormer keeps an ended launcher with a declared domain after its tie was dropped, because
// `virsh start` can start the domain at any later time. A later launcher of the domain replaces it.
// The fence keeps none: it starts no stop for a VM without a tie.
func (s *Supervisor) keepFormer(t *managedTie) {
	domain := t.Launcher.Domain
	if domain == "" || t.LauncherProcess == nil || t.LauncherGone == "" || s.Terms.ProofOnly {
		return
	}
	known := s.former[domain]
	if known != nil && known.LauncherGoneAt > t.LauncherGoneAt {
		return
	}
	if known == nil && len(s.former) >= maxFormer {
		s.forgetOldestFormer()
	}
	t.Launcher.Group, t.Launcher.Cgroup = 0, "" // the kernel may reuse both
	t.handles = map[host.Process]*handle{}
	s.former[domain] = t
}

func (s *Supervisor) forgetOldestFormer() {
	oldest := ""
	for domain, t := range s.former {
		if oldest == "" || t.LauncherGoneAt < s.former[oldest].LauncherGoneAt {
			oldest = domain
		}
	}
	delete(s.former, oldest)
}

// withFormer yields the ties, and then the former launchers.
func (s *Supervisor) withFormer() iter.Seq[*managedTie] {
	return func(yield func(*managedTie) bool) {
		for _, all := range []iter.Seq[*managedTie]{maps.Values(s.ties), maps.Values(s.former)} {
			for t := range all {
				if !yield(t) {
					return
				}
			}
		}
	}
}

// revive makes a former launcher a tie again, because a VM process belongs to it.
func (s *Supervisor) revive(t *managedTie) {
	id := t.Launcher.Container.ID
	if s.former[t.Launcher.Domain] != t || s.ties[id] != nil {
		return
	}
	delete(s.former, t.Launcher.Domain)
	s.attachTie(t)
	s.changeTerms(t)
	s.updateStopHandlers(t.Launcher.Pod.UID, reconnectWait)
}
