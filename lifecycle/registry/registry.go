package registry

import (
	"cmp"
	"iter"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/lifecycle/host"
	"github.com/mooring-vm/mooring/lifecycle/tie"
)

// Registry holds the launchers of the node. Its methods may be called concurrently. They hold a
// lock only for arithmetic and copying, so NRI handlers may call them.
//
// After a restart the agent rebuilds the registry from the runtime and the kernel. Only memory
// requirements reported by VMs come from the store: see RestoreRequirements.
type Registry struct {
	now func() time.Time

	mu         sync.Mutex
	launchers  map[Key]*Launcher
	replaced   map[string]*Launcher    // replaced launchers with VM processes left, by container ID
	byID       map[string]*Launcher    // all launchers of both maps, by container ID
	restored   map[host.Process]uint64 // see [Registry.RestoreRequirements]
	unknown    map[string]bool         // pods by UID: see [Registry.RestoreRequirements]
	generation uint64
}

// New returns an empty registry.
func New() *Registry {
	return &Registry{now: time.Now, launchers: map[Key]*Launcher{},
		replaced: map[string]*Launcher{}, byID: map[string]*Launcher{}}
}

// Put adds a launcher or replaces the one with the same key, with its part of the account. It sets
// Since to now. A replaced launcher with VM processes left stays in the registry as stopped, until
// Release.
func (r *Registry) Put(l Launcher) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.put(l)
}

// PutRemoved adds a launcher that the runtime has removed while its VM processes run. It ignores a
// container that the registry already has. If another container has the same key, PutRemoved adds
// the launcher only if VM processes remain. It stays until Release.
func (r *Registry) PutRemoved(l Launcher) {
	r.mu.Lock()
	defer r.mu.Unlock()
	l.removed = true
	if _, ok := r.byID[l.Container.ID]; ok {
		return
	}
	if _, ok := r.launchers[l.Key()]; !ok {
		r.put(l)
	} else if l.hasVMsLeft() {
		l = l.clone()
		l.Since = r.now()
		r.byID[l.Container.ID] = &l
		r.keepReplaced(&l)
	}
}

// put adds a launcher. The caller holds the lock.
func (r *Registry) put(l Launcher) {
	r.generation++
	l = l.clone()
	l.generation, l.Since = r.generation, r.now()
	if old, ok := r.byID[l.Container.ID]; ok {
		r.forget(old)
	}
	if old, ok := r.launchers[l.Key()]; ok {
		r.replaceLauncher(old)
	}
	r.launchers[l.Key()] = &l
	if l.Container.ID != "" {
		r.byID[l.Container.ID] = &l
	}
	r.restoreRequirement(&l)
}

// replaceLauncher makes room for another container with the same key. The caller holds the lock.
func (r *Registry) replaceLauncher(old *Launcher) {
	if !old.hasVMsLeft() || old.Container.ID == "" {
		r.forget(old)
		return
	}
	delete(r.launchers, old.Key())
	r.keepReplaced(old)
}

// keepReplaced keeps a launcher beside its successor. The caller holds the lock.
func (r *Registry) keepReplaced(l *Launcher) {
	r.replaced[l.Container.ID] = l
	r.markRemoved(l)
}

// markRemoved keeps a removed launcher until its VM processes end. The caller holds the lock.
func (r *Registry) markRemoved(l *Launcher) {
	r.change(l, func(l *Launcher) {
		l.removed = true
		l.setState(agentapi.StateStopped, r.now())
	})
}

// forget removes a launcher. The caller holds the lock.
func (r *Registry) forget(l *Launcher) {
	if r.launchers[l.Key()] == l {
		delete(r.launchers, l.Key())
	}
	if r.byID[l.Container.ID] == l {
		delete(r.byID, l.Container.ID)
		delete(r.replaced, l.Container.ID)
	}
}

// all yields every launcher. The caller holds the lock, and may forget the yielded launcher.
func (r *Registry) all() iter.Seq[*Launcher] {
	return func(yield func(*Launcher) bool) {
		for _, l := range r.launchers {
			if !yield(l) {
				return
			}
		}
		for _, l := range r.replaced {
			if !yield(l) {
				return
			}
		}
	}
}

// change changes a launcher, except for its key and container ID. The caller holds the lock.
func (r *Registry) change(l *Launcher, change func(*Launcher)) {
	change(l)
	l.dropStaleLive()
	r.restoreRequirement(l)
}

// RestoreRequirements sets the memory requirements that VM processes reported to an earlier agent.
// unknown are the UIDs of pods that may have reported one: their VM processes get an
// [UnknownRequirement]. The registry applies a requirement when it knows the launcher with a VM
// process, and keeps it until then.
func (r *Registry) RestoreRequirements(known map[host.Process]uint64, unknown []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.restored, r.unknown = maps.Clone(known), map[string]bool{}
	for _, uid := range unknown {
		r.unknown[uid] = true
	}
	for l := range r.all() {
		r.restoreRequirement(l)
	}
}

// restoreRequirement applies a restored requirement to the launcher's VM processes. The caller
// holds the lock.
func (r *Registry) restoreRequirement(l *Launcher) {
	if len(r.restored)+len(r.unknown) == 0 {
		return
	}
	for vm := range l.vmProcesses() {
		if need, ok := r.restored[vm]; ok {
			l.SetMemoryRequirement(vm, need)
			delete(r.restored, vm)
		}
		if r.unknown[l.Pod.UID] {
			l.SetMemoryRequirement(vm, UnknownRequirement)
			delete(r.unknown, l.Pod.UID)
		}
	}
}

// Get returns a copy of the launcher with its latest container.
func (r *Registry) Get(key Key) (Launcher, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if l, ok := r.launchers[key]; ok {
		return l.clone(), true
	}
	return Launcher{}, false
}

// Find returns a copy of the launcher with this container ID.
func (r *Registry) Find(containerID string) (Launcher, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if l, ok := r.byID[containerID]; ok {
		return l.clone(), true
	}
	return Launcher{}, false
}

// List returns copies of all launchers, sorted by namespace, pod and container name, then by
// container ID.
func (r *Registry) List() []Launcher {
	r.mu.Lock()
	list := make([]Launcher, 0, len(r.launchers)+len(r.replaced))
	for l := range r.all() {
		list = append(list, l.clone())
	}
	r.mu.Unlock()
	slices.SortFunc(list, func(a, b Launcher) int {
		return cmp.Or(
			cmp.Compare(a.Pod.Namespace, b.Pod.Namespace),
			cmp.Compare(a.Pod.Name, b.Pod.Name),
			cmp.Compare(a.Pod.UID, b.Pod.UID),
			cmp.Compare(a.Container.Name, b.Container.Name),
			cmp.Compare(a.Container.ID, b.Container.ID))
	})
	return list
}

// Update changes the launcher with this container ID, and reports whether it exists. So the
// registry ignores events and checks of a replaced container. change runs under the registry's
// lock: it must not block or call the registry.
func (r *Registry) Update(containerID string, change func(*Launcher)) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	l, ok := r.byID[containerID]
	if ok {
		r.change(l, change)
	}
	return ok
}

// SetState sets a launcher's state from an event, and reports whether the launcher exists. A pid of
// 0 keeps the known one. A refused launcher stays refused, because the only later event is the
// removal of its container.
func (r *Registry) SetState(containerID string, state agentapi.State, pid int) bool {
	return r.Update(containerID, func(l *Launcher) {
		if l.State == agentapi.StateRefused {
			return
		}
		r.generation++
		l.generation = r.generation
		l.setState(state, r.now())
		if pid != 0 {
			l.Container.PID = pid
		}
	})
}

// Refuse marks a launcher as refused and removes its granted settings.
func (r *Registry) Refuse(containerID, why string) {
	r.Update(containerID, func(l *Launcher) {
		l.setState(agentapi.StateRefused, r.now())
		l.Refusal, l.Given, l.Demand = why, Given{}, nil
		for i := range l.Settings {
			l.Settings[i].Status, l.Settings[i].Given = agentapi.StatusRefused, ""
		}
	})
}

// RemoveContainer forgets the launcher unless it was refused: the runtime removes a refused
// container at once, but users need to see it until its pod is gone or a later attempt succeeds. A
// launcher with VM processes left stays until Release.
func (r *Registry) RemoveContainer(containerID string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if l, ok := r.byID[containerID]; ok && l.State != agentapi.StateRefused {
		r.remove(l)
	}
}

// remove forgets a launcher unless VM processes remain. The caller holds the lock.
func (r *Registry) remove(l *Launcher) {
	if !l.hasVMsLeft() {
		r.forget(l)
		return
	}
	r.markRemoved(l)
}

// Release forgets a launcher without VM processes, if the runtime has removed it or it was
// replaced.
func (r *Registry) Release(containerID string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	l, ok := r.byID[containerID]
	switch {
	case !ok:
	case l.removed:
		r.forget(l)
	default:
		r.change(l, func(l *Launcher) { l.VMs = nil })
	}
}

// StopSandbox marks the launchers of a sandbox as stopped, which ends their part of the account.
func (r *Registry) StopSandbox(sandboxID string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for l := range r.all() {
		if l.SandboxID == sandboxID && l.State != agentapi.StateRefused {
			r.change(l, func(l *Launcher) { l.setState(agentapi.StateStopped, r.now()) })
		}
	}
}

// RemoveSandbox forgets the launchers of a sandbox like RemoveContainer. Launchers of the same pod
// in a newer sandbox stay.
func (r *Registry) RemoveSandbox(sandboxID string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for l := range r.all() {
		if l.SandboxID == sandboxID {
			r.remove(l)
		}
	}
}

// OfPod returns copies of a pod's launchers in no order, without replaced ones.
func (r *Registry) OfPod(uid string) []Launcher {
	r.mu.Lock()
	defer r.mu.Unlock()
	var found []Launcher
	for key, l := range r.launchers {
		if key.PodUID == uid {
			found = append(found, l.clone())
		}
	}
	return found
}

// StopOf returns the most urgent stop request to a pod, also for a replaced launcher.
func (r *Registry) StopOf(podUID string) (stop tie.ShutdownRequest, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for l := range r.all() {
		if l.Pod.UID == podUID && l.Stop != nil && (!ok || l.Stop.Due < stop.Due) {
			stop, ok = *l.Stop, true
		}
	}
	return stop, ok
}

// HasPod reports whether the pod has a launcher in the registry.
func (r *Registry) HasPod(uid string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for l := range r.all() {
		if l.Pod.UID == uid {
			return true
		}
	}
	return false
}
