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

// View reads the records of a tracker. Its methods may be called concurrently, but not after Close.
type View struct {
	maps     mapSet
	programs *programs
	pinned   string // directory of the maps; empty without pins or if this process pinned them
}

// OpenView opens the pins of a tracker for reading, whether or not a process has the tracker open.
// It fails with ErrUnsupported if dir cannot hold pins, with fs.ErrNotExist if dir holds none, and
// with ErrSchema if the pins have an unknown layout. While a tracker replaces its maps, it fails
// the same way for a moment or opens the old maps (see View.Replaced). This process must be in the
// tracker's pid namespace.
func OpenView(dir string) (*View, error) {
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
	newest := complete[len(complete)-1]
	if err := checkSchema(dir, newest); err != nil {
		return nil, err
	}
	return openView(filepath.Join(dir, newest.name()))
}

func openView(generation string) (*View, error) {
	entries, err := os.ReadDir(generation)
	if err != nil {
		return nil, fmt.Errorf("directory of pins: %w", err)
	}
	build := slices.IndexFunc(entries, func(e os.DirEntry) bool {
		return strings.HasPrefix(e.Name(), buildPrefix) &&
			isReady(filepath.Join(generation, e.Name()))
	})
	if build < 0 {
		return nil, fmt.Errorf("no programs are pinned in %s: %w", generation, fs.ErrNotExist)
	}
	v := &View{pinned: generation}
	dir := filepath.Join(generation, entries[build].Name())
	if v.programs, err = pinnedPrograms(dir, []string{trackerProgList}, handlers()); err != nil {
		return nil, err
	}
	if v.maps, err = pinnedMaps(generation, trackerMapGroups, trackerMapProcesses,
		trackerMapCounters, trackerMapConfig); err != nil {
		return nil, errors.Join(err, v.Close())
	}
	return v, nil
}

// Close closes the view. The tracker keeps working.
func (v *View) Close() error {
	var err error
	if v.programs != nil {
		err = v.programs.close()
	}
	return errors.Join(err, v.maps.close())
}

// Replaced reports whether a tracker has replaced the maps behind the view, so that the view is out
// of date.
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

// Snapshot returns the running tracked processes, sorted by number. It leaves out a process after
// the end of its last thread, even if its exit was missed, and a process with the reused number of
// a tracked one. It walks all threads visible to this process: about a millisecond for each few
// thousand.
func (v *View) Snapshot() ([]Tracked, error) {
	records, err := run(v.programs.iterator(trackerProgList))
	if err != nil {
		return nil, fmt.Errorf("listing tracked processes: %w", err)
	}
	return trackedAll(records)
}

// Complete reports whether the map of processes is complete. It is false from the loss of a process
// (no room, or a handler call skipped by the kernel) until a Resync has found all processes. It
// survives restarts. It costs two lookups. To conclude from Snapshot that a process is gone, call
// Complete after Snapshot. Processes in a cgroup before its registration do not count.
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

// lostProcesses counts the losses of the map: processes without room, and skipped handler calls.
func (v *View) lostProcesses() (uint64, error) {
	lost, err := v.count(trackerCounterCOUNT_LOST_PROCESSES)
	if err != nil {
		return 0, err
	}
	skipped, err := v.skippedCalls()
	return lost + skipped, err
}

// skippedCalls counts the handler calls that the kernel skipped. It skips a call when a handler
// interrupts itself on the same CPU, which is possible with preemptible tracepoints (7.x).
func (v *View) skippedCalls() (skipped uint64, err error) {
	for _, name := range handlers() {
		stats, err := v.programs.programs[name].Stats()
		if err != nil {
			return 0, fmt.Errorf("counting skipped calls of %s: %w", name, err)
		}
		skipped += stats.RecursionMisses
	}
	return skipped, nil
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

// run runs an iterator over all tasks and returns its records.
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
