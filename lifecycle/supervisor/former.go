package supervisor

import (
	"iter"
	"maps"

	"github.com/mooring-vm/mooring/lifecycle/host"
	"github.com/mooring-vm/mooring/lifecycle/tie"
)

// maxFormer bounds the former launchers.
const maxFormer = 1024

// keepFormer keeps an ended launcher with a declared domain after its tie was dropped, because
// `virsh start` can start the domain at any later time, also after a restart of the agent. A later
// launcher of the domain replaces it. The fence keeps none: it starts no stop for a VM without a
// tie.
func (s *Supervisor) keepFormer(t *managedTie) {
	domain := t.Launcher.Domain
	if domain == "" || t.LauncherProcess == nil || t.LauncherGone == "" || s.Terms.ProofOnly {
		return
	}
	known := s.former[domain]
	switch {
	case known != nil && known.LauncherGoneAt > t.LauncherGoneAt:
		s.deleteFormer(t)
		return
	case known != nil:
		s.forgetFormer(known)
	case len(s.former) >= maxFormer:
		s.forgetFormer(s.oldestFormer())
	}
	t.Launcher.Group, t.Launcher.Cgroup = 0, "" // the kernel may reuse both
	t.handles = map[host.Process]*handle{}
	s.former[domain] = t
	if s.Former == nil {
		return
	}
	if err := s.Former.Save(t.Tie); err != nil {
		s.logger(t).Warn("the next agent will not know an ended launcher", "error", err)
	}
}

func (s *Supervisor) oldestFormer() (oldest *managedTie) {
	for _, t := range s.former {
		if oldest == nil || t.LauncherGoneAt < oldest.LauncherGoneAt {
			oldest = t
		}
	}
	return oldest
}

func (s *Supervisor) forgetFormer(t *managedTie) {
	delete(s.former, t.Launcher.Domain)
	s.deleteFormer(t)
}

// deleteFormer deletes a former launcher from the store only.
func (s *Supervisor) deleteFormer(t *managedTie) {
	if s.Former == nil {
		return
	}
	if err := s.Former.Delete(t.Launcher.Container.ID); err != nil {
		s.logger(t).Warn("the store still has an ended launcher", "error", err)
	}
}

// restoreFormer keeps a stored former launcher. A crash may have left a tie, too.
func (s *Supervisor) restoreFormer(stored tie.Tie) {
	t := s.newManagedTie(stored)
	t.restored, t.othersUnknown = true, true
	if s.ties[stored.Launcher.Container.ID] != nil {
		s.deleteFormer(t)
		return
	}
	s.keepFormer(t)
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
	s.attachTie(t)
	s.changeTerms(t) // saves the tie
	s.forgetFormer(t)
	s.updateStopHandlers(t.Launcher.Pod.UID, reconnectWait)
}
