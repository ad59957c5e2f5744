package lifecycletest

import (
	"fmt"
	"slices"
	"sync"

	"github.com/mooring-vm/mooring/lifecycle/host"
	"github.com/mooring-vm/mooring/lifecycle/supervisor"
)

// Tracker is a [supervisor.Tracker] of the processes of a fake [Kernel]: those that
// were told to run an emulator.
type Tracker struct {
	kernel *Kernel

	mu        sync.Mutex
	cgroups   []string
	emulators map[host.Process]string // executed file
	bound     map[host.Process]uint64 // group
	watched   []host.Process
	fail      error
	hidden    map[host.Process]bool // there was no room for them
}

var _ supervisor.Tracker = (*Tracker)(nil)

// NewTracker returns a tracker that knows nothing.
func NewTracker(k *Kernel) *Tracker {
	return &Tracker{kernel: k, emulators: map[host.Process]string{}, bound: map[host.Process]uint64{}, hidden: map[host.Process]bool{}}
}

// Fail makes Snapshot and Rescan fail until it is called with nil.
func (t *Tracker) Fail(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.fail = err
}

// Hide has the tracker not know a process, for lack of room, or know it again.
func (t *Tracker) Hide(p host.Process, hidden bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if hidden {
		t.hidden[name(p)] = true
	} else {
		delete(t.hidden, name(p))
	}
}

// Exec has a process run an emulator, and returns what a tracker tells of it.
func (t *Tracker) Exec(p host.Process, executable string) supervisor.ProcessEvent {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.emulators[name(p)] = executable
	return supervisor.ProcessEvent{Tracked: t.tracked(p)}
}

func name(p host.Process) host.Process {
	return host.Process{PID: p.PID, StartTime: p.StartTime}
}

// tracked needs the lock.
func (t *Tracker) tracked(p host.Process) supervisor.Tracked {
	all := supervisor.Tracked{Process: p, Executable: t.emulators[name(p)], Group: t.bound[name(p)], Bound: t.bound[name(p)] != 0}
	for i, cgroup := range t.cgroups {
		if all.Group == 0 && cgroup != "" && inside(p.Cgroup, cgroup) {
			all.Group = group(i)
		}
	}
	return all
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
	if there, _ := t.kernel.Exists(cgroup); !there {
		return 0, fmt.Errorf("cgroup %s: %w", cgroup, host.ErrGone)
	}
	at := slices.Index(t.cgroups, cgroup)
	if at < 0 {
		at = len(t.cgroups)
		t.cgroups = append(t.cgroups, cgroup)
	}
	return group(at), nil
}

// group is that of the cgroup that was registered as the i-th.
func group(i int) uint64 { return uint64(1000 + i) }

// Unregister implements [supervisor.Tracker].
func (t *Tracker) Unregister(gone uint64) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range t.cgroups {
		if group(i) == gone {
			t.cgroups[i] = "" // groups are not used again
		}
	}
	return nil
}

// Bind implements [supervisor.Tracker].
func (t *Tracker) Bind(p host.Process, to uint64) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.bound[name(p)] = to
	return nil
}

// Watch implements [supervisor.Tracker].
func (t *Tracker) Watch(p host.Process) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.watched = append(t.watched, name(p))
	return nil
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
		if one := t.tracked(p); !t.hidden[name(p)] && (one.Group != 0 || one.Executable != "") {
			all = append(all, one)
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
