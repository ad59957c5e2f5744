package bpf

import (
	"errors"
	"fmt"
	"log/slog"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// succeed makes the first generation of pins, or the next one, with what the
// current one knows. The new programs run before the old ones end, and the old
// ones end only when everything is copied: so every process is known to at least
// one of the two.
func (t *Tracker) succeed(spec *ebpf.CollectionSpec, current generation) error {
	next := generation{schema: schema, number: current.number + 1}
	dir := t.path(next)
	if err := t.startNew(spec); err != nil {
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

// migrate copies groups and processes from older maps.
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
		if !again { // all parents are known to the new programs
			t.behind = true
			return nil
		}
	}
}

// copyProcesses copies entries that are not there yet, and reports whether there
// may be more, and leaves out those that have no room. An older value may be shorter,
// and a newer one longer.
func (t *Tracker) copyProcesses(from *ebpf.Map) (again bool, err error) {
	iterator := from.Iterate()
	var (
		key   uint32
		value []byte
	)
	for iterator.Next(&key, &value) {
		process, err := fromBytes[trackerProcess](append(value, make([]byte, unsafe.Sizeof(trackerProcess{}))...))
		if err != nil {
			return false, err
		}
		switch err := t.edit(trackerChange{Tgid: key, Process: process}); {
		case err == nil:
			again = true
		case errors.Is(err, unix.E2BIG):
			continue // Open looks for it once more
		case !errors.Is(err, unix.EEXIST):
			return false, err
		}
	}
	if errors.Is(iterator.Err(), ebpf.ErrIterationAborted) { // much came and went meanwhile
		return true, nil
	}
	return again, iterator.Err()
}
