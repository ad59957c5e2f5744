package registry

import "github.com/mooring-vm/mooring/api/agentapi"

// Generation is a point in the history of a registry: see [Registry.Generation].
type Generation uint64

// Generation returns the current generation. A container list sent by the runtime before it is
// older than later events about launchers.
func (r *Registry) Generation() Generation {
	r.mu.Lock()
	defer r.mu.Unlock()
	return Generation(r.generation)
}

// Missing returns the launchers without an event after that generation and with a container missing
// from the runtime's list. A refused launcher has no container; it is missing when its sandbox
// is.
func (r *Registry) Missing(since Generation, containers, sandboxes map[string]bool) []Launcher {
	r.mu.Lock()
	defer r.mu.Unlock()
	var missing []Launcher
	for _, l := range r.launchers {
		listed := containers[l.Container.ID]
		if !l.inAccount() {
			listed = sandboxes[l.SandboxID]
		}
		if l.generation <= uint64(since) && !listed {
			missing = append(missing, l.clone())
		}
	}
	return missing
}

// Replaced reports whether an event after that generation replaced the launcher's container with
// this ID. Information about the old container is then out of date.
func (r *Registry) Replaced(key Key, containerID string, since Generation) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	now, ok := r.launchers[key]
	return ok && now.Container.ID != containerID && now.generation > uint64(since)
}

// Drop removes the launcher like RemoveContainer, unless an event changed it after the caller's
// copy.
func (r *Registry) Drop(l Launcher) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	now, ok := r.launchers[l.Key()]
	if !ok || now.generation != l.generation {
		return false
	}
	r.remove(now)
	return true
}

// SetListedState sets a launcher's state from the runtime's list, unless an event came after that
// generation.
func (r *Registry) SetListedState(
	since Generation, containerID string, state agentapi.State, pid int,
) {
	r.Update(containerID, func(l *Launcher) {
		if l.generation > uint64(since) {
			return
		}
		l.setState(state, r.now())
		if pid != 0 {
			l.Container.PID = pid
		}
	})
}
