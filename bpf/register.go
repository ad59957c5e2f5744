package bpf

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// Register makes the processes of a cgroup, and of the cgroups below it, a group with the cgroup's
// id. It takes microseconds. Registering again has no effect.
//
// From then on the kernel tracks every process that is born into the cgroup, moved into it or
// executes a file in it. Call Resync soon afterwards to find the processes already inside. Until
// then each exec on the node costs a little more. Register fails with ErrFull at Options.MaxGroups
// cgroups.
func (t *Tracker) Register(cgroup uint64) error {
	if cgroup == 0 {
		return errors.New("registering cgroup 0: a cgroup id is at least 1")
	}
	err := t.registerUnscanned(cgroup, func() error {
		return t.maps[trackerMapGroups].Put(cgroup, cgroup)
	})
	if errors.Is(err, unix.E2BIG) {
		return fmt.Errorf("registering cgroup %d: at most %d cgroups: %w",
			cgroup, t.options.MaxGroups, ErrFull)
	}
	if err != nil {
		return fmt.Errorf("registering cgroup %d: %w", cgroup, err)
	}
	return nil
}

// Unregister reverts Register. Processes of the group and their children stay in it until they
// exit. An unregistered id is no error.
func (t *Tracker) Unregister(cgroup uint64) error {
	err := t.maps[trackerMapGroups].Delete(cgroup)
	if err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
		return fmt.Errorf("unregistering cgroup %d: %w", cgroup, err)
	}
	return nil
}

// Watch makes the exit of a process wake the reader of events at once, like the exit of an
// emulator. It tracks the process if necessary, and does not watch its children. The start time may
// be in whole ticks (see Process.Ticks). Watch returns the process with its exact start time. It
// fails with ErrNoProcess if the process does not exist, and with ErrFull if the whole map is full.
// It walks all threads, like Snapshot.
func (t *Tracker) Watch(p Process) (Process, error) {
	return t.mark(p, trackerRequest{Watch: 1})
}

// Bind puts a process, and its later children, into a group and keeps them there in any cgroup. The
// group need not be registered. For an untracked process it fails with ErrFull if the map has no
// room for it (see Options.MaxProcesses). Otherwise it is like Watch.
func (t *Tracker) Bind(p Process, group uint64) error {
	if group == 0 {
		return fmt.Errorf("binding process %d to group 0: a group id is at least 1", p.PID)
	}
	_, err := t.mark(p, trackerRequest{Group: group})
	return err
}

// markTries bounds the attempts to change an entry that another program changes at this moment.
const markTries = 16

// mark applies the request to a process, and returns the process with its exact start time.
func (t *Tracker) mark(p Process, request trackerRequest) (Process, error) {
	t.scanMutex.Lock()
	defer t.scanMutex.Unlock()
	request.Pid, request.Start = uint32(p.PID), p.StartTime
	done := request
	result := unix.EBUSY
	for try := 0; try < markTries && result == unix.EBUSY; try++ {
		var err error
		if done, err = t.runMark(request); err != nil {
			return p, fmt.Errorf("marking process %d: %w", p.PID, err)
		}
		result = unix.Errno(-done.Result)
	}
	switch result {
	case 0:
		return Process{PID: p.PID, StartTime: done.Start}, nil
	case unix.ESRCH:
		return p, fmt.Errorf("process %d that started at %d ns: %w", p.PID, p.StartTime,
			ErrNoProcess)
	case unix.E2BIG:
		return p, fmt.Errorf("process %d: at most %d processes: %w", p.PID, t.options.MaxProcesses,
			ErrFull)
	default:
		return p, fmt.Errorf("process %d: %w", p.PID, result)
	}
}

// runMark runs the program mark once and returns the request with its result.
func (t *Tracker) runMark(request trackerRequest) (trackerRequest, error) {
	request.Result = -int32(unix.ESRCH)
	requests := t.maps[trackerMapAsked]
	if err := requests.Put(uint32(0), &request); err != nil {
		return request, err
	}
	if _, err := run(t.programs.iterator(trackerProgMark)); err != nil {
		return request, err
	}
	err := requests.Lookup(uint32(0), &request)
	return request, err
}
