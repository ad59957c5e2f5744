package bpf

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// Changes is what Resync had to put right.
type Changes struct {
	Found []Tracked // were missing, or had another group or file; with ErrFull some still are
	Gone  []Tracked // were in the map, and do not run
}

// maxPasses bounds how often Resync looks for children of those it has found.
const maxPasses = 16

// Resync makes the map of processes what it would be if nothing had been missed,
// and returns what that changed: processes of registered cgroups, children of
// tracked processes, emulators and executed files are entered, and processes that
// have ended are removed. To call after Register, after a Lost event, and now and
// then. What is lost for good is the group of a process that had moved out of its
// cgroup, and whose parent has ended. It writes no events; an event that was lost
// shows in how Snapshot differs from what the caller knew.
//
// It walks all threads a few times, about a millisecond for each few thousand. With
// ErrFull it has done what it could, and View.Complete stays as it was.
func (t *Tracker) Resync() (Changes, error) {
	t.asking.Lock()
	defer t.asking.Unlock()
	announced := t.registrations()
	changes, lost, err := t.resync()
	if err == nil {
		err = t.scanned(announced, lost)
	}
	if err != nil {
		return changes, fmt.Errorf("synchronizing the map of processes: %w", err)
	}
	return changes, nil
}

// resync returns also how many processes had been lost when it began to look for
// them.
func (t *Tracker) resync() (c Changes, lost uint64, err error) {
	before, err := readMap[uint32, trackerProcess](t.maps[trackerMapProcesses])
	if err != nil {
		return c, 0, err
	}
	if c.Gone, err = t.removeGone(before); err != nil { // first, for it makes room
		return c, 0, err
	}
	full, err := t.count(trackerCounterCOUNT_LOST_PROCESSES)
	if err != nil {
		return c, 0, err
	}
	if lost, err = t.lostProcesses(); err != nil {
		return c, 0, err
	}
	if c.Found, err = t.scan(); err != nil {
		return c, lost, err
	}
	now, err := t.count(trackerCounterCOUNT_LOST_PROCESSES)
	if err == nil && now != full {
		err = fmt.Errorf("%d processes have no room, which is for %d in all: %w", now-full, t.options.MaxProcesses, ErrFull)
	}
	return c, lost, err
}

// scan enters what is missing, until a pass finds nothing: one that was not
// tracked yet may have had children behind the back of the pass that found it.
func (t *Tracker) scan() ([]Tracked, error) {
	found := map[Process]trackerProcess{}
	for range maxPasses {
		records, err := run(t.programs.iterator(trackerProgScan))
		if err != nil {
			return nil, err
		}
		fresh := false
		for _, r := range records {
			if found[identity(&r)] != r {
				found[identity(&r)] = r
				fresh = true
			}
		}
		if !fresh {
			break
		}
	}
	return trackedAll(slices.Collect(maps.Values(found)))
}

// removeGone removes processes that none of two listings has. They were in the map
// before the first, and a process that runs is in it for as long as it does.
func (t *Tracker) removeGone(before map[uint32]trackerProcess) ([]Tracked, error) {
	for range 2 {
		records, err := run(t.programs.iterator(trackerProgList))
		if err != nil {
			return nil, err
		}
		alive := map[Process]bool{}
		for i := range records {
			alive[identity(&records[i])] = true
		}
		maps.DeleteFunc(before, func(_ uint32, p trackerProcess) bool { return alive[identity(&p)] })
	}
	var gone []trackerProcess
	for tgid, p := range before {
		err := t.edit(trackerChange{Process: trackerProcess{Start: p.Start}, Tgid: tgid, Forget: 1})
		if errors.Is(err, unix.ESRCH) { // it was not told too late, but while we looked
			continue
		}
		if err != nil {
			return nil, err
		}
		gone = append(gone, p)
	}
	return trackedAll(gone)
}

// edit changes the map of processes, by a program that keeps the filter in front
// of it right.
func (t *Tracker) edit(change trackerChange) error {
	result, err := t.programs.programs[trackerProgEdit].Run(&ebpf.RunOptions{Context: change})
	if err != nil {
		return fmt.Errorf("changing the map of processes: %w", err)
	}
	if errno := unix.Errno(-int32(result)); errno != 0 {
		return errno
	}
	return nil
}
