package lifecycletest

import (
	"fmt"
	"slices"
	"sync"

	"github.com/mooring-vm/mooring/lifecycle/host"
	"github.com/mooring-vm/mooring/lifecycle/supervisor"
)

// Tracker is a [supervisor.Tracker] of the processes of a fake [Kernel]. A process counts as an
// emulator after [Tracker.Exec].
type Tracker struct {
	kernel *Kernel

	mu        sync.Mutex
	cgroups   []string
	emulators map[host.Process]string // executed file
	bound     map[host.Process]uint64 // group
	inherited map[host.Process]uint64 // group of the parent
	watched   []host.Process
	fail      error
	hidden    map[host.Process]bool // for lack of room
}

var _ supervisor.Tracker = (*Tracker)(nil)

// NewTracker returns a tracker without processes.
func NewTracker(k *Kernel) *Tracker {
	return &Tracker{
		kernel:    k,
		emulators: map[host.Process]string{},
		bound:     map[host.Process]uint64{},
		inherited: map[host.Process]uint64{},
		hidden:    map[host.Process]bool{},
	}
}

// Fail makes Snapshot and Rescan fail until it is called with nil.
func (t *Tracker) Fail(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.fail = err
}

// Hide removes a process from the tracker, as for lack of room, or adds it again.
func (t *Tracker) Hide(p host.Process, hidden bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if hidden {
		t.hidden[key(p)] = true
	} else {
		delete(t.hidden, key(p))
	}
}

// Exec lets a process execute an emulator, and returns the event of it. An empty executable stands
// for another file.
func (t *Tracker) Exec(p host.Process, executable string) supervisor.ProcessEvent {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.emulators[key(p)] = executable
	return supervisor.ProcessEvent{Tracked: t.tracked(p)}
}

// Inherit gives a process outside all cgroups of launchers the group of its parent.
func (t *Tracker) Inherit(p host.Process, parent uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.inherited[key(p)] = parent
}

func key(p host.Process) host.Process { return p.ID() }

// exact returns a process with its start time to the nanosecond, which only the tracker knows.
func exact(p host.Process) host.Process {
	p.StartTime = p.ID().StartTime + uint64(p.PID)%uint64(host.Tick-1) + 1
	return p
}

// tracked returns the tracker's entry of a process. The caller holds mu.
func (t *Tracker) tracked(p host.Process) supervisor.Tracked {
	bound := t.bound[key(p)]
	tracked := supervisor.Tracked{
		Process: exact(p), Executable: t.emulators[key(p)], Group: bound, Bound: bound != 0,
	}
	for i, cgroup := range t.cgroups {
		if tracked.Group == 0 && cgroup != "" && inside(p.Cgroup, cgroup) {
			tracked.Group = group(i)
		}
	}
	if tracked.Group == 0 {
		tracked.Group = t.inherited[key(p)]
	}
	return tracked
}

// Registered returns the registered cgroups.
func (t *Tracker) Registered() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(t.cgroups), func(c string) bool { return c == "" })
}

// Register implements [supervisor.Tracker].
func (t *Tracker) Register(cgroup string) (uint64, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if exists, _ := t.kernel.Exists(cgroup); !exists {
		return 0, fmt.Errorf("cgroup %s: %w", cgroup, host.ErrGone)
	}
	at := slices.Index(t.cgroups, cgroup)
	if at < 0 {
		at = len(t.cgroups)
		t.cgroups = append(t.cgroups, cgroup)
	}
	return group(at), nil
}

// group returns the group of the cgroup with this index.
func group(i int) uint64 { return uint64(1000 + i) }

// Unregister implements [supervisor.Tracker].
func (t *Tracker) Unregister(gone uint64) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range t.cgroups {
		if group(i) == gone {
			t.cgroups[i] = "" // an empty entry, because groups are not used again
		}
	}
	return nil
}

// Bind implements [supervisor.Tracker].
func (t *Tracker) Bind(p host.Process, to uint64) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.bound[key(p)] = to
	return nil
}

// Watch implements [supervisor.Tracker].
func (t *Tracker) Watch(p host.Process) (host.Process, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.watched = append(t.watched, key(p))
	return exact(p), nil
}

// Snapshot implements [supervisor.Tracker].
func (t *Tracker) Snapshot() (all []supervisor.Tracked, complete bool, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.fail != nil {
		return nil, false, t.fail
	}
	procs, err := t.kernel.Processes("/")
	for _, p := range procs {
		tracked := t.tracked(p)
		if !t.hidden[key(p)] && (tracked.Group != 0 || tracked.Executable != "") {
			all = append(all, tracked)
		}
	}
	return all, len(t.hidden) == 0, err
}

// Rescan implements [supervisor.Tracker].
func (t *Tracker) Rescan() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.fail
}
