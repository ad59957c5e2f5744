package bpf

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// Register makes the processes of a cgroup, and of those below it, belong to the
// group of that id. It takes microseconds, and registering again does nothing.
//
// From then on every process is tracked that is born into it, is moved into it or
// executes a file in it. Call Resync soon after that, which finds those that are
// inside already: until then, every process of the node pays a little more for
// executing a file. It fails with ErrFull where Options.MaxGroups are registered.
func (t *Tracker) Register(cgroup uint64) error {
	if cgroup == 0 {
		return errors.New("registering cgroup 0: there is none of that id")
	}
	err := t.announce(cgroup, func() error { return t.maps[trackerMapGroups].Put(cgroup, cgroup) })
	if errors.Is(err, unix.E2BIG) {
		return fmt.Errorf("registering cgroup %d: the map for %d: %w", cgroup, t.options.MaxGroups, ErrFull)
	}
	if err != nil {
		return fmt.Errorf("registering cgroup %d: %w", cgroup, err)
	}
	return nil
}

// Unregister ends what Register began. Processes of the group, and their children,
// stay in it until they exit. An id that is not registered is no error.
func (t *Tracker) Unregister(cgroup uint64) error {
	err := t.maps[trackerMapGroups].Delete(cgroup)
	if err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
		return fmt.Errorf("unregistering cgroup %d: %w", cgroup, err)
	}
	return nil
}

// Watch makes a process one whose exit wakes the reader of events at once, as that
// of an emulator does, and tracks it if it is not tracked. Its children are not
// watched. The start time may be in whole ticks of /proc/PID/stat (see
// Process.Ticks). It fails with ErrNoProcess where there is no such process (any
// more), and with ErrFull only where nobody has room. It walks all threads, as Snapshot does.
func (t *Tracker) Watch(p Process) error {
	return t.ask(p, trackerRequest{Watch: 1})
}

// Bind makes a process, and the children that it has from then on, belong to a
// group, and keeps them there whatever cgroup they are in. The group need not be
// registered. The process may be untracked: then it fails with ErrFull where there
// is no room for it (see Options.MaxProcesses). Otherwise it is like Watch.
func (t *Tracker) Bind(p Process, group uint64) error {
	if group == 0 {
		return fmt.Errorf("binding process %d to group 0: there is none of that id", p.PID)
	}
	return t.ask(p, trackerRequest{Group: group})
}

// ask has the program mark do what the request says to a process.
func (t *Tracker) ask(p Process, request trackerRequest) error {
	t.asking.Lock()
	defer t.asking.Unlock()
	request.Pid, request.Start = uint32(p.PID), p.StartTime
	request.Result = -int32(unix.ESRCH)
	asked := t.maps[trackerMapAsked]
	if err := asked.Put(uint32(0), &request); err != nil {
		return fmt.Errorf("asking for process %d: %w", p.PID, err)
	}
	if _, err := run(t.programs.iterator(trackerProgMark)); err != nil {
		return fmt.Errorf("asking for process %d: %w", p.PID, err)
	}
	if err := asked.Lookup(uint32(0), &request); err != nil {
		return fmt.Errorf("asking for process %d: %w", p.PID, err)
	}
	switch errno := unix.Errno(-request.Result); errno {
	case 0:
		return nil
	case unix.ESRCH:
		return fmt.Errorf("process %d that started at %d ns: %w", p.PID, p.StartTime, ErrNoProcess)
	case unix.E2BIG:
		return fmt.Errorf("process %d: room for %d in all: %w", p.PID, t.options.MaxProcesses, ErrFull)
	default:
		return fmt.Errorf("process %d: %w", p.PID, errno)
	}
}
