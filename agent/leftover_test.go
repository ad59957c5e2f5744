package agent

import (
	"errors"
	"maps"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mooring-vm/mooring/lifecycle"
)

// groups are those that are registered with a tracker.
type groups map[uint64]bool

func (g groups) register(group uint64) error { g[group] = true; return nil }

func (g groups) unregister(group uint64) error {
	if !g[group] {
		return errors.New("it is not registered")
	}
	delete(g, group)
	return nil
}

func tieOf(group uint64) (t lifecycle.Tie) {
	t.Launcher.Group = group
	return t
}

func TestLeftovers(t *testing.T) {
	const tied, again, fresh, late, left, other = 1, 2, 3, 4, 5, 6
	registered := groups{tied: true, again: true, left: true, other: true}
	var l leftovers
	l.note(slices.Collect(maps.Keys(registered)))
	for _, group := range []uint64{again, fresh} {
		if err := l.claim(group, registered.register); err != nil {
			t.Error(err)
		}
	}
	ties := []lifecycle.Tie{tieOf(tied), tieOf(0)}
	if n, err := l.forget(ties, registered.unregister); n != 2 || err != nil {
		t.Errorf("forgotten: %d, %v, want 2", n, err)
	}
	if err := l.claim(late, registered.register); err != nil {
		t.Error(err)
	}
	if n, err := l.forget(nil, registered.unregister); n != 0 || err != nil {
		t.Errorf("forgotten once more: %d, %v", n, err)
	}
	if diff := cmp.Diff(groups{tied: true, again: true, fresh: true, late: true}, registered); diff != "" {
		t.Errorf("registered (-want +got)\n%s", diff)
	}
}

// What could not be forgotten is left over still.
func TestLeftoversStay(t *testing.T) {
	var l leftovers
	l.note([]uint64{1, 2})
	fault := errors.New("fault")
	if n, err := l.forget(nil, func(uint64) error { return fault }); n != 0 || !errors.Is(err, fault) {
		t.Errorf("forgotten: %d, %v", n, err)
	}
	if n, err := l.forget(nil, func(uint64) error { return nil }); n != 2 || err != nil {
		t.Errorf("forgotten: %d, %v, want 2", n, err)
	}
}

// Where not all ties can be read, any of the cgroups may be that of one.
func TestNothingIsForgottenOnDoubt(t *testing.T) {
	config := DefaultConfig()
	config.Root = t.TempDir()
	store, err := lifecycle.OpenFileStore(config.Root, config.Proc)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	if err := touchFile(filepath.Join(config.Root, "ties", "broken.json")); err != nil {
		t.Fatal(err)
	}
	var tr tracker // a nil one: it would panic
	tr.left.note([]uint64{1})
	if n, err := tr.forgetBut(config); n != 0 || err == nil {
		t.Errorf("forgotten: %d, %v, want an error", n, err)
	}
}
