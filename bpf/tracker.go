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

// Tracker tracks processes. Its methods may be called concurrently, but none
// after Close.
type Tracker struct {
	View
	options Options
	pins    *pins // nil: nothing is pinned

	asking    sync.Mutex // one scan, and one request in the map asked, at a time
	settings  sync.Mutex // one change of the settings at a time
	announced uint64     // registrations, guarded by settings
	reading   sync.Mutex // one reader of events
	lost      uint64     // losses that were told, guarded by reading
	behind    bool       // events may be missing that nobody counted, guarded by reading
}

// Open loads and attaches the programs, or takes over what an earlier process
// pinned in Options.Dir: its processes, registered cgroups and events. Programs of
// another build are replaced, and so are maps of other sizes or an older schema,
// without a gap in what is tracked; some events may then come twice, and a Lost
// event says that some may be missing. What Open finds running is in Snapshot,
// without events; that there is no room for all is no error (see View.Complete).
//
// It fails with ErrUnsupported where the kernel or the rights do not suffice, and
// with ErrBusy while another process has the folder open. It takes some 100 ms to
// load programs, and some ms to take them over.
func Open(o Options) (*Tracker, error) {
	o, err := o.complete()
	if err != nil {
		return nil, err
	}
	spec, err := loadTracker()
	if err != nil {
		return nil, err
	}
	o.size(spec)
	t := &Tracker{options: o}
	if err := t.start(spec); err != nil {
		return nil, errors.Join(fmt.Errorf("opening the tracker: %w", err), t.Close())
	}
	if _, err := t.Resync(); err != nil && !errors.Is(err, ErrFull) {
		return nil, errors.Join(fmt.Errorf("opening the tracker: %w", err), t.Close())
	}
	return t, nil
}

// Close ends the tracker. What is pinned goes on working.
func (t *Tracker) Close() error {
	err := t.View.Close()
	if t.pins != nil {
		err = errors.Join(err, t.pins.close())
		t.pins = nil
	}
	return err
}

func (t *Tracker) start(spec *ebpf.CollectionSpec) error {
	if t.options.Dir == "" {
		return t.startNew(spec)
	}
	var err error
	if t.pins, err = openPins(t.options.Dir); err != nil {
		return err
	}
	current, err := t.pins.current()
	if err != nil {
		return err
	}
	if current.schema == schema {
		t.maps, err = compatiblePins(t.path(current), spec)
		if err == nil {
			return t.takeOver(spec, current)
		}
		t.options.Logger.Info("pinned maps cannot be used as they are", slog.Any("error", err))
	}
	return t.succeed(spec, current)
}

func (t *Tracker) path(g generation) string {
	return filepath.Join(t.options.Dir, g.name())
}

// startNew makes maps, loads programs and attaches them.
func (t *Tracker) startNew(spec *ebpf.CollectionSpec) error {
	var err error
	if t.maps, err = createMaps(spec); err != nil {
		return err
	}
	if err := t.maps.configure(t.options); err != nil {
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
	if err := t.locate(); err != nil {
		return err
	}
	return t.programs.attach()
}

// locate has the programs tell processes by their numbers in the pid namespace of
// this process.
func (t *Tracker) locate() error {
	_, err := run(t.programs.iterator(trackerProgLocate))
	return err
}

// takeOver uses the pinned maps, and the pinned programs if they are of this
// build. Else it attaches its own before it drops them: handlers that run twice do
// no harm, a gap would.
func (t *Tracker) takeOver(spec *ebpf.CollectionSpec, g generation) error {
	if err := t.maps.configure(t.options); err != nil {
		return err
	}
	dir := t.options.buildDir(t.path(g))
	if err := t.takePrograms(spec, dir); err != nil {
		return err
	}
	removed, err := removeOtherBuilds(t.path(g), dir)
	t.options.Logger.Info("took over the tracker", slog.String("pins", t.path(g)), slog.Any("replaced", removed))
	return err
}

func (t *Tracker) takePrograms(spec *ebpf.CollectionSpec, dir string) error {
	if isReady(dir) {
		var err error
		t.programs, err = pinnedPrograms(dir, slices.Concat(handlers(), iterators()), onDemand())
		if err == nil {
			return t.locate()
		}
		t.options.Logger.Warn("pinned programs cannot be used", slog.Any("error", err))
	}
	if err := t.attach(spec); err != nil {
		return err
	}
	if err := removePins(dir); err != nil {
		return err
	}
	return t.programs.pin(dir)
}

// Remove removes all pins of a tracker, and so ends it. It fails with ErrBusy
// while a process has the tracker open.
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
