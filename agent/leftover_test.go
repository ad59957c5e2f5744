package agent

import (
	"errors"
	"maps"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mooring-vm/mooring/lifecycle/supervisor"
	"github.com/mooring-vm/mooring/lifecycle/tie"
)

// groups are the registered cgroups of a tracker.
type groups map[uint64]bool

func (g groups) register(group uint64) error { g[group] = true; return nil }

func (g groups) unregister(group uint64) error {
	if !g[group] {
		return errors.New("it is not registered")
	}
	delete(g, group)
	return nil
}

func tieOf(group uint64) (t tie.Tie) {
	t.Launcher.Group = group
	return t
}

func TestLeftovers(t *testing.T) {
	const tied, again, fresh, late, left, other = 1, 2, 3, 4, 5, 6
	registered := groups{tied: true, again: true, left: true, other: true}
	var l leftovers
	l.reset(slices.Collect(maps.Keys(registered)))
	for _, group := range []uint64{again, fresh} {
		if err := l.claim(group, registered.register); err != nil {
			t.Error(err)
		}
	}
	ties := []tie.Tie{tieOf(tied), tieOf(0)}
	if n, err := l.release(ties, registered.unregister); n != 2 || err != nil {
		t.Errorf("released: %d, %v, want 2", n, err)
	}
	if err := l.claim(late, registered.register); err != nil {
		t.Error(err)
	}
	if n, err := l.release(nil, registered.unregister); n != 0 || err != nil {
		t.Errorf("released once more: %d, %v", n, err)
	}
	if diff := cmp.Diff(groups{tied: true, again: true, fresh: true, late: true},
		registered); diff != "" {
		t.Errorf("registered (-want +got)\n%s", diff)
	}
}

// After an error, the other cgroups are still leftovers.
func TestLeftoversAfterAnError(t *testing.T) {
	var l leftovers
	l.reset([]uint64{1, 2})
	fault := errors.New("fault")
	if n, err := l.release(nil, func(uint64) error { return fault }); n != 0 ||
		!errors.Is(err, fault) {
		t.Errorf("released: %d, %v", n, err)
	}
	if n, err := l.release(nil, func(uint64) error { return nil }); n != 2 || err != nil {
		t.Errorf("released: %d, %v, want 2", n, err)
	}
}

// With an unreadable tie, each cgroup may belong to it.
func TestNothingIsReleasedWithAnUnreadableTie(t *testing.T) {
	config := DefaultConfig()
	config.Root = t.TempDir()
	store, err := supervisor.OpenFileStore(config.Root, config.Proc)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	if err := touchFile(filepath.Join(config.Root, "ties", "broken.json")); err != nil {
		t.Fatal(err)
	}
	var tr tracker // without a bpf.Tracker: Unregister would panic
	tr.leftovers.reset([]uint64{1})
	if n, err := tr.releaseLeftovers(config); n != 0 || err == nil {
		t.Errorf("released: %d, %v, want an error", n, err)
	}
}
