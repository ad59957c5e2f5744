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

// Registry holds the launchers of the node. Its methods may be called from
// several goroutines at once; they take a short lock, under which nothing is done
// but arithmetic and copying, so NRI handlers may call them.
//
// Everything in it is rebuilt from the runtime and the kernel after a restart, but for
// what VMs have said: see RecallNeeds.
type Registry struct {
	now func() time.Time

	mu         sync.Mutex
	launchers  map[Key]*Launcher
	left       map[string]*Launcher    // by container ID: replaced, while VM processes of them are left
	byID       map[string]*Launcher    // all of both, by the runtime's ID of their container
	recalled   map[host.Process]uint64 // see [Registry.RecallNeeds]
	generation uint64
}

// New returns an empty registry.
func New() *Registry {
	return &Registry{now: time.Now, launchers: map[Key]*Launcher{}, left: map[string]*Launcher{}, byID: map[string]*Launcher{}}
}

// Put adds a launcher or replaces the one of the same key, and thereby what that
// one held of the memlock account. Since is set to now. If VM processes are left of
// the one that is replaced, it stays beside the new one, stopped, until Release.
func (r *Registry) Put(l Launcher) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.put(l)
}

// PutRemoved adds a launcher that the runtime has removed while VM processes of it run,
// unless its container is known. Where another container of the same key is, it is added
// only if VM processes of it are left. It stays until Release.
func (r *Registry) PutRemoved(l Launcher) {
	r.mu.Lock()
	defer r.mu.Unlock()
	l.removed = true
	if _, ok := r.byID[l.Container.ID]; ok {
		return
	}
	if _, ok := r.launchers[l.Key()]; !ok {
		r.put(l)
	} else if l.leaves() {
		l = l.clone()
		l.Since = r.now()
		r.byID[l.Container.ID] = &l
		r.leave(&l)
	}
}

// put needs the lock.
func (r *Registry) put(l Launcher) {
	r.generation++
	l = l.clone()
	l.generation, l.Since = r.generation, r.now()
	if old, ok := r.byID[l.Container.ID]; ok {
		r.forget(old)
	}
	if old, ok := r.launchers[l.Key()]; ok {
		r.replace(old)
	}
	r.launchers[l.Key()] = &l
	if l.Container.ID != "" {
		r.byID[l.Container.ID] = &l
	}
	r.recall(&l)
}

// replace makes room for another container of the same key. The caller holds the lock.
func (r *Registry) replace(old *Launcher) {
	if !old.leaves() || old.Container.ID == "" {
		r.forget(old)
		return
	}
	delete(r.launchers, old.Key())
	r.leave(old)
}

// leave keeps a launcher beside its successor. The caller holds the lock.
func (r *Registry) leave(l *Launcher) {
	r.left[l.Container.ID] = l
	r.stay(l)
}

// stay keeps a launcher for as long as VM processes are left of it. The caller holds
// the lock.
func (r *Registry) stay(l *Launcher) {
	r.change(l, func(l *Launcher) {
		l.removed = true
		l.enter(agentapi.StateStopped, r.now())
	})
}

// forget takes a launcher out. The caller holds the lock.
func (r *Registry) forget(l *Launcher) {
	if r.launchers[l.Key()] == l {
		delete(r.launchers, l.Key())
	}
	if r.byID[l.Container.ID] == l {
		delete(r.byID, l.Container.ID)
		delete(r.left, l.Container.ID)
	}
}

// all yields every launcher. The caller holds the lock, and may forget what it is
// given.
func (r *Registry) all() iter.Seq[*Launcher] {
	return func(yield func(*Launcher) bool) {
		for _, l := range r.launchers {
			if !yield(l) {
				return
			}
		}
		for _, l := range r.left {
			if !yield(l) {
				return
			}
		}
	}
}

// change changes a launcher, but not its key nor its container's ID, and keeps the
// account up. The caller holds the lock.
func (r *Registry) change(l *Launcher, change func(*Launcher)) {
	change(l)
	l.settleLive()
	r.recall(l)
}

// RecallNeeds says what VM processes have told an earlier agent that they need. It is
// taken up once a launcher is known to have such a process. What is not taken up stays.
func (r *Registry) RecallNeeds(needs map[host.Process]uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.recalled = maps.Clone(needs)
	for l := range r.all() {
		r.recall(l)
	}
}

// recall takes up what was recalled of the launcher's VM processes. The caller holds the
// lock.
func (r *Registry) recall(l *Launcher) {
	if len(r.recalled) == 0 {
		return
	}
	for vm := range l.vmProcesses() {
		if need, ok := r.recalled[vm]; ok {
			l.SetNeed(vm, need)
			delete(r.recalled, vm)
		}
	}
}

// Get returns a copy of the launcher, as its latest container has it.
func (r *Registry) Get(key Key) (Launcher, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if l, ok := r.launchers[key]; ok {
		return l.clone(), true
	}
	return Launcher{}, false
}

// Find returns a copy of the launcher whose container has the runtime's ID.
func (r *Registry) Find(containerID string) (Launcher, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if l, ok := r.byID[containerID]; ok {
		return l.clone(), true
	}
	return Launcher{}, false
}

// List returns copies of all launchers, by namespace, pod and container. Those of the
// same key, of which VM processes are left, come in the order of their containers' IDs.
func (r *Registry) List() []Launcher {
	r.mu.Lock()
	list := make([]Launcher, 0, len(r.launchers)+len(r.left))
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

// Update changes the launcher whose container has the runtime's ID, and reports
// whether there is one. Events and checks of a container that was replaced
// meanwhile thus change nothing. change runs under the registry's lock: it must
// not block, and not call the registry.
func (r *Registry) Update(containerID string, change func(*Launcher)) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	l, ok := r.byID[containerID]
	if ok {
		r.change(l, change)
	}
	return ok
}

// Enter moves the launcher to a state that an event told of, and reports whether
// there is one. A pid of 0 leaves the known one. What was refused stays refused:
// all that is ever told of it is that its creation was undone.
func (r *Registry) Enter(containerID string, state agentapi.State, pid int) bool {
	return r.Update(containerID, func(l *Launcher) {
		if l.State == agentapi.StateRefused {
			return
		}
		r.generation++
		l.generation = r.generation
		l.enter(state, r.now())
		if pid != 0 {
			l.Container.PID = pid
		}
	})
}

// Refuse marks the launcher as refused after all, and takes back what it was
// given.
func (r *Registry) Refuse(containerID, why string) {
	r.Update(containerID, func(l *Launcher) {
		l.enter(agentapi.StateRefused, r.now())
		l.Refusal, l.Given, l.Demand = why, Given{}, nil
		for i := range l.Settings {
			l.Settings[i].Status, l.Settings[i].Given = agentapi.StatusRefused, ""
		}
	})
}

// RemoveContainer forgets the launcher, unless it was refused: the runtime removes
// a refused container at once, but users want to see it until its pod is gone or
// a later attempt succeeds. One that VM processes are left of stays until Release.
func (r *Registry) RemoveContainer(containerID string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if l, ok := r.byID[containerID]; ok && l.State != agentapi.StateRefused {
		r.remove(l)
	}
}

// remove forgets a launcher unless VM processes are left of it. The caller holds
// the lock.
func (r *Registry) remove(l *Launcher) {
	if !l.leaves() {
		r.forget(l)
		return
	}
	r.stay(l)
}

// Release forgets a launcher of which nothing is left, if the runtime has removed
// it, or its successor has come.
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

// StopSandbox marks the launchers of a sandbox as stopped, which frees what they
// hold.
func (r *Registry) StopSandbox(sandboxID string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for l := range r.all() {
		if l.SandboxID == sandboxID && l.State != agentapi.StateRefused {
			r.change(l, func(l *Launcher) { l.enter(agentapi.StateStopped, r.now()) })
		}
	}
}

// RemoveSandbox forgets the launchers of a sandbox, as RemoveContainer does. Those
// that the same pod has in a newer sandbox stay.
func (r *Registry) RemoveSandbox(sandboxID string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for l := range r.all() {
		if l.SandboxID == sandboxID {
			r.remove(l)
		}
	}
}

// OfPod returns copies of the launchers of a pod, in no order. Those that another has
// replaced are left out.
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

// StopOf returns what a pod is asked for first, also on behalf of a launcher that was
// replaced.
func (r *Registry) StopOf(podUID string) (stop tie.PodStop, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for l := range r.all() {
		if l.Pod.UID == podUID && l.Stop != nil && (!ok || l.Stop.Due < stop.Due) {
			stop, ok = *l.Stop, true
		}
	}
	return stop, ok
}

// HasPod reports whether any launcher of the pod is known.
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
