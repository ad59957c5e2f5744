package bpf

import (
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"

	"github.com/cilium/ebpf"
)

// Tracker tracks processes. Its methods may be called concurrently, but not after Close.
type Tracker struct {
	View
	options Options
	pins    *pins // nil without pins

	scanMutex      sync.Mutex // one scan or one request to the program mark at a time
	settingsMutex  sync.Mutex // one change of the settings at a time
	registered     uint64     // number of registrations, guarded by settingsMutex
	readMutex      sync.Mutex // one reader of events
	reportedLosses uint64     // losses reported so far, guarded by readMutex
	eventsMissing  bool       // uncounted events may be missing, guarded by readMutex
}

// Open loads and attaches the programs, or takes over the pins of an earlier process in
// Options.Dir: its processes, registered cgroups and events. It replaces programs of another build,
// and maps of other sizes, without a gap in the tracking. After a replacement some events may come
// twice, and a Lost event reports that some may be missing. Processes that already run are in
// Snapshot, without events. A lack of room for them is no error (see View.Complete).
//
// It fails with ErrUnsupported if the kernel or the rights do not suffice, with ErrBusy while
// another process has the directory open, and with ErrSchema if the pins have an unknown layout.
// Loading programs takes about 100 ms, taking them over a few ms.
func Open(o Options) (*Tracker, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	spec, err := loadTracker()
	if err != nil {
		return nil, err
	}
	o.setMapSizes(spec)
	t := &Tracker{options: o}
	if err := t.openOrCreate(spec); err != nil {
		return nil, errors.Join(fmt.Errorf("opening the tracker: %w", err), t.Close())
	}
	if _, err := t.Resync(); err != nil && !errors.Is(err, ErrFull) {
		return nil, errors.Join(fmt.Errorf("opening the tracker: %w", err), t.Close())
	}
	return t, nil
}

// Close closes the tracker. Pinned maps and programs keep working.
func (t *Tracker) Close() error {
	err := t.View.Close()
	if t.pins != nil {
		err = errors.Join(err, t.pins.close())
		t.pins = nil
	}
	return err
}

func (t *Tracker) openOrCreate(spec *ebpf.CollectionSpec) error {
	if t.options.Dir == "" {
		return t.createNew(spec)
	}
	var err error
	if t.pins, err = openPins(t.options.Dir); err != nil {
		return err
	}
	current, err := t.pins.current()
	if err != nil {
		return err
	}
	if current == (generation{}) {
		return t.startGeneration(spec, current)
	}
	if err := checkSchema(t.options.Dir, current); err != nil {
		return err
	}
	t.maps, err = compatiblePins(t.path(current), spec)
	if err == nil {
		return t.takeOver(spec, current)
	}
	t.options.Logger.Info("pinned maps do not fit, replacing them", slog.Any("error", err))
	return t.startGeneration(spec, current)
}

func (t *Tracker) path(g generation) string {
	return filepath.Join(t.options.Dir, g.name())
}

// createNew creates maps, loads programs and attaches them.
func (t *Tracker) createNew(spec *ebpf.CollectionSpec) error {
	var err error
	if t.maps, err = createMaps(spec); err != nil {
		return err
	}
	if err := t.maps.writeSettings(t.options); err != nil {
		return err
	}
	return t.attach(spec)
}

// attach loads programs over the maps and attaches them.
func (t *Tracker) attach(spec *ebpf.CollectionSpec) error {
	var err error
	if t.programs, err = load(t.options, spec, t.maps); err != nil {
		return err
	}
	if err := t.setPIDNamespace(); err != nil {
		return err
	}
	return t.programs.attach()
}

// setPIDNamespace makes the programs number processes as in the pid namespace of this process.
func (t *Tracker) setPIDNamespace() error {
	_, err := run(t.programs.iterator(trackerProgLocate))
	return err
}

// takeOver uses the pinned maps, and the pinned programs if they are of this build. Otherwise it
// attaches its own programs before it removes the pinned ones: two handlers do no harm, a gap
// would.
func (t *Tracker) takeOver(spec *ebpf.CollectionSpec, g generation) error {
	if err := t.maps.writeSettings(t.options); err != nil {
		return err
	}
	dir := t.options.buildDir(t.path(g))
	if err := t.takePrograms(spec, dir); err != nil {
		return err
	}
	removed, err := removeOtherBuilds(t.path(g), dir)
	t.options.Logger.Info("took over the tracker", slog.String("pins", t.path(g)),
		slog.Any("replaced", removed))
	return err
}

func (t *Tracker) takePrograms(spec *ebpf.CollectionSpec, dir string) error {
	if isReady(dir) {
		var err error
		t.programs, err = pinnedPrograms(dir, slices.Concat(handlers(), iterators()), onDemand())
		if err == nil {
			return t.setPIDNamespace()
		}
		t.options.Logger.Warn("pinned programs do not load, replacing them", slog.Any("error", err))
	}
	if err := t.attach(spec); err != nil {
		return err
	}
	if err := removePins(dir); err != nil {
		return err
	}
	return t.programs.pin(dir)
}

// Remove removes all pins of a tracker, which ends it. It fails with ErrBusy while a process has
// the tracker open.
func Remove(dir string) error {
	p, err := openPins(dir)
	if err != nil {
		return err
	}
	complete, names, err := generations(dir)
	for _, g := range complete {
		names = append(names, g.name())
	}
	for _, name := range names {
		err = errors.Join(err, removePins(filepath.Join(dir, name)))
	}
	return errors.Join(err, p.close())
}
