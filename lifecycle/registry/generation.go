package registry

import "github.com/mooring-vm/mooring/api/agentapi"

// Generation is a moment in the life of a registry: see [Registry.Generation].
type Generation uint64

// Generation returns the present moment. A list of containers that the runtime
// sent before it says nothing about launchers that events tell of later.
func (r *Registry) Generation() Generation {
	r.mu.Lock()
	defer r.mu.Unlock()
	return Generation(r.generation)
}

// Missing returns the launchers whose container is not among the IDs that the
// runtime listed, and of which no event told after that moment. Refused ones have
// no container, and are missing when their sandbox is.
func (r *Registry) Missing(since Generation, containers, sandboxes map[string]bool) []Launcher {
	r.mu.Lock()
	defer r.mu.Unlock()
	var missing []Launcher
	for _, l := range r.launchers {
		listed := containers[l.Container.ID]
		if !l.holds() {
			listed = sandboxes[l.SandboxID]
		}
		if l.generation <= uint64(since) && !listed {
			missing = append(missing, l.clone())
		}
	}
	return missing
}

// Replaced reports whether the registry knows the launcher by another container,
// of which an event told after that moment: then what is said of the container
// with this ID is out of date.
func (r *Registry) Replaced(key Key, containerID string, since Generation) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	now, ok := r.launchers[key]
	return ok && now.Container.ID != containerID && now.generation > uint64(since)
}

// Drop forgets the launcher as RemoveContainer does, if it still is the one that the caller looked at and
// no event told of it since.
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

// Catch moves the launcher to a state that the runtime listed, unless an event
// told of it after that moment.
func (r *Registry) Catch(since Generation, containerID string, state agentapi.State, pid int) {
	r.Update(containerID, func(l *Launcher) {
		if l.generation > uint64(since) {
			return
		}
		l.enter(state, r.now())
		if pid != 0 {
			l.Container.PID = pid
		}
	})
}
