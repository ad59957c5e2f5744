package bpf

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// Changes is the result of Resync.
type Changes struct {
	Found  []Tracked      // were missing or had another group or file
	Gone   []Tracked      // were in the map without a running process
	NoRoom map[uint64]int // with ErrFull: number of processes that stay missing, by group
}

// maxPasses bounds the passes that search for children of processes found before.
const maxPasses = 16

// Resync scans the node and corrects the map of processes: it adds processes of registered cgroups,
// children of tracked processes and emulators, updates executables, and removes processes that have
// ended. Call it after Register, after a Lost event, and periodically. It cannot restore the group
// of a process that had left its cgroup if the parent has ended. It writes no events: compare
// Snapshot with your records to find missed changes.
//
// It walks all threads a few times, about a millisecond for each few thousand. With ErrFull it has
// added the processes with room, and View.Complete stays unchanged. Another Resync helps only after
// processes of the groups in Changes.NoRoom have ended.
func (t *Tracker) Resync() (Changes, error) {
	t.scanMutex.Lock()
	defer t.scanMutex.Unlock()
	announced := t.registrationCount()
	changes, lost, err := t.resync()
	if err == nil {
		err = t.markScanned(announced, lost)
	}
	if err != nil {
		return changes, fmt.Errorf("synchronizing the map of processes: %w", err)
	}
	return changes, nil
}

// resync also returns the number of lost processes from before its scan.
func (t *Tracker) resync() (c Changes, lost uint64, err error) {
	before, err := readMap[uint32, trackerProcess](t.maps[trackerMapProcesses])
	if err != nil {
		return c, 0, err
	}
	if c.Gone, err = t.removeGone(before); err != nil { // first, because it makes room
		return c, 0, err
	}
	if lost, err = t.lostProcesses(); err != nil {
		return c, 0, err
	}
	c.Found, c.NoRoom, err = t.scan()
	if err == nil && len(c.NoRoom) > 0 {
		err = fmt.Errorf("no room for processes of %d groups, the map has %d entries: %w",
			len(c.NoRoom), t.options.MaxProcesses, ErrFull)
	}
	return c, lost, err
}

// scan adds missing processes until a pass finds no new one. A process found by one pass may have
// had untracked children during this pass. Each pass finds the processes without room again.
func (t *Tracker) scan() (added []Tracked, noRoom map[uint64]int, err error) {
	found := map[Process]trackerProcess{}
	noRoom = map[uint64]int{}
	var records []trackerProcess
	for range maxPasses {
		if records, err = run(t.programs.iterator(trackerProgScan)); err != nil {
			return nil, nil, err
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
	for _, r := range records {
		noRoom[r.Group]++
		delete(found, identity(&r))
	}
	added, err = trackedAll(slices.Collect(maps.Values(found)))
	return added, noRoom, err
}

// removeGone removes the processes missing from two listings. Each of them was in the map before
// the first listing, and a running process is in every listing.
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
		maps.DeleteFunc(before, func(_ uint32, p trackerProcess) bool {
			return alive[identity(&p)]
		})
	}
	var gone []trackerProcess
	for tgid, p := range before {
		err := t.edit(trackerChange{Process: trackerProcess{Start: p.Start}, Tgid: tgid, Forget: 1})
		if errors.Is(err, unix.ESRCH) { // its exit event arrived meanwhile
			continue
		}
		if err != nil {
			return nil, err
		}
		gone = append(gone, p)
	}
	return trackedAll(gone)
}

// edit changes the map of processes by a program, which also keeps the filter in front of the map
// right.
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
