package bpf

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/cilium/ebpf"
)

// nameSize is the size of a file name in the maps, NUL included.
const nameSize = len(trackerProcess{}.Name)

// mapSet holds the tracker's maps by name.
type mapSet map[string]*ebpf.Map

func (m mapSet) close() error {
	var errs []error
	for _, one := range m {
		errs = append(errs, one.Close())
	}
	return errors.Join(errs...)
}

// createMaps creates empty maps.
func createMaps(spec *ebpf.CollectionSpec) (mapSet, error) {
	m := mapSet{}
	for name, one := range spec.Maps {
		created, err := ebpf.NewMap(one)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("map %s: %w", name, explainLoadError(err)),
				m.close())
		}
		m[name] = created
	}
	return m, nil
}

// writeSettings writes the settings and emulators of these options into the maps. The program
// set_pid_namespace writes the pid namespace.
func (m mapSet) writeSettings(o Options) error {
	settings, err := m.getSettings()
	if err != nil {
		return err
	}
	settings.Step = uint64(o.RingBytes / 8)
	o.setShares(&settings)
	names := map[[nameSize]byte]bool{}
	lengths := uint64(0)
	for _, emulator := range o.Emulators {
		for _, name := range fileNames(emulator) {
			names[fileName(name)] = true
			lengths |= 1 << len(name)
		}
	}
	settings.NameLengths |= lengths // keep the lengths of old names until their removal
	if err := m.putSettings(settings); err != nil {
		return err
	}
	if err := m.putEmulators(names); err != nil {
		return err
	}
	settings.NameLengths = lengths
	return m.putSettings(settings)
}

func (m mapSet) getSettings() (trackerSettings, error) {
	var s trackerSettings
	if err := m[trackerMapConfig].Lookup(uint32(0), &s); err != nil {
		return s, fmt.Errorf("reading settings: %w", err)
	}
	return s, nil
}

func (m mapSet) putSettings(s trackerSettings) error {
	if err := m[trackerMapConfig].Put(uint32(0), &s); err != nil {
		return fmt.Errorf("entering settings: %w", err)
	}
	return nil
}

func (m mapSet) putEmulators(names map[[nameSize]byte]bool) error {
	for name := range names {
		if err := m[trackerMapEmulators].Put(name, uint8(1)); err != nil {
			return fmt.Errorf("entering emulators: %w", err)
		}
	}
	entered, err := readMap[[nameSize]byte, uint8](m[trackerMapEmulators])
	if err != nil {
		return fmt.Errorf("reading emulators: %w", err)
	}
	maps.DeleteFunc(entered, func(name [nameSize]byte, _ uint8) bool { return names[name] })
	for name := range entered {
		if err := m[trackerMapEmulators].Delete(name); err != nil {
			return fmt.Errorf("removing emulator: %w", err)
		}
	}
	return nil
}

// fileNames returns the names of an emulator's file: its own, the names that Nix wrappers and
// dpkg-divert give it, and the name of a file in memory. It leaves out names that are too long.
func fileNames(emulator string) []string {
	all := []string{emulator, "." + emulator + "-wrapped", emulator + ".distrib",
		"memfd:" + emulator}
	return slices.DeleteFunc(all, func(name string) bool { return len(name) >= nameSize })
}

func fileName(name string) [nameSize]byte {
	var key [nameSize]byte
	copy(key[:], name)
	return key
}

// readMap returns all entries of a hash map. It reads in batches, so an entry present throughout is
// in the result, however many entries come and go.
func readMap[K comparable, V any](m *ebpf.Map) (map[K]V, error) {
	const batch = 1024
	var (
		all    = map[K]V{}
		keys   = make([]K, batch)
		values = make([]V, batch)
		cursor ebpf.MapBatchCursor
	)
	for {
		n, err := m.BatchLookup(&cursor, keys, values, nil)
		for i := range n {
			all[keys[i]] = values[i]
		}
		if errors.Is(err, ebpf.ErrKeyNotExist) {
			return all, nil
		}
		if err != nil {
			return nil, err
		}
	}
}
