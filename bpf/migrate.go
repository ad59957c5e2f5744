package bpf

import (
	"errors"
	"fmt"
	"log/slog"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// startGeneration creates the first generation of pins, or the next one with the content of the
// current one. The new programs run before the old ones end, and the old ones end after the copy.
// So at least one of the two tracks each process at any time.
func (t *Tracker) startGeneration(spec *ebpf.CollectionSpec, current generation) error {
	next := generation{schema: schema, number: current.number + 1}
	dir := t.path(next)
	if err := t.createNew(spec); err != nil {
		return err
	}
	if err := t.maps.pin(dir); err != nil {
		return err
	}
	if err := t.programs.pin(t.options.buildDir(dir)); err != nil {
		return err
	}
	if current != (generation{}) {
		if err := t.migrate(t.path(current)); err != nil {
			return err
		}
	}
	if err := markReady(dir); err != nil {
		return err
	}
	t.options.Logger.Info("pinned the tracker", slog.String("pins", dir))
	if current == (generation{}) {
		return nil
	}
	return removePins(t.path(current))
}

// migrate copies groups and processes from the maps of an earlier generation.
func (t *Tracker) migrate(from string) error {
	old, err := pinnedMaps(from, trackerMapGroups, trackerMapProcesses)
	if err != nil {
		return fmt.Errorf("taking over %s: %w", from, err)
	}
	err = t.copy(old)
	return errors.Join(err, old.close())
}

func (t *Tracker) copy(old mapSet) error {
	groups, err := readMap[uint64, uint64](old[trackerMapGroups])
	if err != nil {
		return fmt.Errorf("reading the registered cgroups: %w", err)
	}
	for id := range groups {
		if err := t.Register(id); err != nil {
			return err
		}
	}
	for {
		again, err := t.copyProcesses(old[trackerMapProcesses])
		if err != nil {
			return fmt.Errorf("taking over processes: %w", err)
		}
		if !again { // the new programs know all parents
			t.eventsMissing = true
			return nil
		}
	}
}

// copyProcesses copies the entries missing here and reports whether there may be more. It skips an
// entry without room. The layout is that of [checkSchema].
func (t *Tracker) copyProcesses(from *ebpf.Map) (again bool, err error) {
	iterator := from.Iterate()
	var (
		key   uint32
		value []byte
	)
	for iterator.Next(&key, &value) {
		process, err := fromBytes[trackerProcess](value)
		if err != nil {
			return false, err
		}
		switch err := t.edit(trackerChange{Tgid: key, Process: process}); {
		case err == nil:
			again = true
		case errors.Is(err, unix.E2BIG):
			continue // Open scans for it later
		case !errors.Is(err, unix.EEXIST):
			return false, err
		}
	}
	if errors.Is(iterator.Err(), ebpf.ErrIterationAborted) { // many entries came and went
		return true, nil
	}
	return again, iterator.Err()
}
