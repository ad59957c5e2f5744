package bpf

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unsafe"

	"github.com/cilium/ebpf/link"
)

// View reads what a tracker knows. Its methods may be called concurrently, but
// none after Close.
type View struct {
	maps     mapSet
	programs *programs
	pinned   string // folder of the maps; empty: they are not pinned, or this process pins them
}

// Look opens the pins of a tracker for reading, whether or not a process has the
// tracker open. It fails with ErrUnsupported where there can be no pins, and with
// fs.ErrNotExist where there are none; also for a moment while maps are replaced,
// after which the view still shows the old ones. The process has to be in the pid
// namespace of the tracker's.
func Look(dir string) (*View, error) {
	if err := wantBPFFS(dir); err != nil {
		return nil, err
	}
	complete, _, err := generations(dir)
	if err != nil {
		return nil, err
	}
	if len(complete) == 0 {
		return nil, fmt.Errorf("no tracker is pinned in %s: %w", dir, fs.ErrNotExist)
	}
	return look(filepath.Join(dir, complete[len(complete)-1].name()))
}

func look(generation string) (*View, error) {
	entries, err := os.ReadDir(generation)
	if err != nil {
		return nil, fmt.Errorf("folder of pins: %w", err)
	}
	build := slices.IndexFunc(entries, func(e os.DirEntry) bool {
		return strings.HasPrefix(e.Name(), buildPrefix) && isReady(filepath.Join(generation, e.Name()))
	})
	if build < 0 {
		return nil, fmt.Errorf("no programs are pinned in %s: %w", generation, fs.ErrNotExist)
	}
	v := &View{pinned: generation}
	dir := filepath.Join(generation, entries[build].Name())
	if v.programs, err = pinnedPrograms(dir, []string{trackerProgList}, handlers()); err != nil {
		return nil, err
	}
	if v.maps, err = pinnedMaps(generation, trackerMapGroups, trackerMapProcesses, trackerMapCounters, trackerMapConfig); err != nil {
		return nil, errors.Join(err, v.Close())
	}
	return v, nil
}

// Close closes the view, which ends nothing.
func (v *View) Close() error {
	var err error
	if v.programs != nil {
		err = v.programs.close()
	}
	return errors.Join(err, v.maps.close())
}

// Replaced reports whether a tracker has replaced the maps that Look has found: the
// view shows what nobody keeps up any more.
func (v *View) Replaced() bool {
	return v.pinned != "" && !isReady(v.pinned)
}

// Registered returns the ids of the registered cgroups, sorted.
func (v *View) Registered() ([]uint64, error) {
	groups, err := readMap[uint64, uint64](v.maps[trackerMapGroups])
	if err != nil {
		return nil, fmt.Errorf("reading the registered cgroups: %w", err)
	}
	return slices.Sorted(maps.Keys(groups)), nil
}

// Snapshot returns the tracked processes that run, sorted by number. A process
// whose last thread has ended is not among them, even if its exit was missed, and
// neither is one that merely got the number of a tracked one. It walks all
// threads that this process can see: about a millisecond for each few thousand.
func (v *View) Snapshot() ([]Tracked, error) {
	records, err := run(v.programs.iterator(trackerProgList))
	if err != nil {
		return nil, fmt.Errorf("listing tracked processes: %w", err)
	}
	return trackedAll(records)
}

// Complete reports whether the map of processes has all that it should have: not
// from when a process is lost, for want of room or because the kernel left a handler
// out, until a Resync has found them all,
// which without losses is that of Open. It outlives restarts. It costs two lookups.
// Who wants to conclude that a process is gone from its not being in Snapshot asks
// after taking the snapshot. Of processes that were in a cgroup before it was
// registered it says nothing.
func (v *View) Complete() (bool, error) {
	settings, err := v.maps.getSettings()
	if err != nil {
		return false, err
	}
	lost, err := v.lostProcesses()
	if err != nil {
		return false, fmt.Errorf("counting lost processes: %w", err)
	}
	return settings.Complete == lost+1, nil
}

// lostProcesses counts what the map may lack: processes that it had no room for, and
// calls of the handlers that the kernel left out. It does where one has interrupted
// another of its own on the same CPU, which kernels with preemptible tracepoints (7.x)
// let happen.
func (v *View) lostProcesses() (uint64, error) {
	lost, err := v.count(trackerCounterCOUNT_LOST_PROCESSES)
	if err != nil {
		return 0, err
	}
	for _, name := range handlers() {
		stats, err := v.programs.programs[name].Stats()
		if err != nil {
			return 0, fmt.Errorf("asking for the calls of %s that were left out: %w", name, err)
		}
		lost += stats.RecursionMisses
	}
	return lost, nil
}

func trackedAll(records []trackerProcess) ([]Tracked, error) {
	all := make([]Tracked, 0, len(records))
	for i := range records {
		one, err := tracked(&records[i])
		if err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	slices.SortFunc(all, func(a, b Tracked) int { return a.PID - b.PID })
	return all, nil
}

// run runs an iterator over all tasks, and returns what it wrote.
func run(iterator *link.Iter) ([]trackerProcess, error) {
	file, err := iterator.Open()
	if err != nil {
		return nil, err
	}
	records, err := readRecords(bufio.NewReaderSize(file, 1<<16))
	return records, errors.Join(err, file.Close())
}

func readRecords(r io.Reader) ([]trackerProcess, error) {
	var records []trackerProcess
	raw := make([]byte, unsafe.Sizeof(trackerProcess{}))
	for {
		if _, err := io.ReadFull(r, raw); errors.Is(err, io.EOF) {
			return records, nil
		} else if err != nil {
			return nil, err
		}
		record, err := fromBytes[trackerProcess](raw)
		if err != nil {
			return nil, err
		}
		records = append(records, record)
	}
}
