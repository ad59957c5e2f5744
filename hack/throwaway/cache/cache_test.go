package cache

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func newStore(t *testing.T) *Store {
	t.Helper()
	s, err := New(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func write(content string) func(context.Context, string) error {
	return func(_ context.Context, dir string) error {
		return os.WriteFile(filepath.Join(dir, "f"), []byte(content), 0o644)
	}
}

func get(t *testing.T, s *Store, build func(context.Context, string) error) *Entry {
	t.Helper()
	e, err := s.Get(t.Context(), "thing", KeyOf("k"), build)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	return e
}

func TestKeyOfSeparatesParts(t *testing.T) {
	if KeyOf("ab", "c") == KeyOf("a", "bc") {
		t.Error("parts run into each other")
	}
}

func TestRacingCallersBuildOnce(t *testing.T) {
	s := newStore(t)
	var builds atomic.Int32
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			e, err := s.Get(t.Context(), "thing", KeyOf("k"),
				func(ctx context.Context, dir string) error {
					builds.Add(1)
					return write("x")(ctx, dir)
				})
			if err != nil {
				t.Error(err)
				return
			}
			if b, err := os.ReadFile(filepath.Join(e.Dir, "f")); err != nil || string(b) != "x" {
				t.Errorf("read %q, %v", b, err)
			}
			_ = e.Close()
		})
	}
	wg.Wait()
	if n := builds.Load(); n != 1 {
		t.Errorf("built %d times, want 1", n)
	}
}

func TestBrokenEntryIsRebuilt(t *testing.T) {
	breakers := map[string]func(dir string) error{
		"truncated": func(dir string) error { return os.Truncate(filepath.Join(dir, "f"), 1) },
		"removed":   func(dir string) error { return os.Remove(filepath.Join(dir, "f")) },
		"added": func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "g"), nil, 0o644)
		},
		"unsummed": func(dir string) error { return os.Remove(sumFile(dir)) },
	}
	for name, damage := range breakers {
		t.Run(name, func(t *testing.T) {
			s := newStore(t)
			e := get(t, s, write("old"))
			if err := e.Close(); err != nil {
				t.Fatal(err)
			}
			if err := damage(e.Dir); err != nil {
				t.Fatal(err)
			}
			e = get(t, s, write("new"))
			if b, _ := os.ReadFile(filepath.Join(e.Dir, "f")); string(b) != "new" {
				t.Errorf("entry holds %q, want the rebuilt one", b)
			}
		})
	}
}

func TestFailedBuildLeavesNothing(t *testing.T) {
	s := newStore(t)
	boom := errors.New("boom")
	_, err := s.Get(t.Context(), "thing", KeyOf("k"), func(ctx context.Context, dir string) error {
		return errors.Join(write("half")(ctx, dir), boom)
	})
	if !errors.Is(err, boom) {
		t.Fatalf("got %v, want %v", err, boom)
	}
	left, err := filepath.Glob(s.Dir("thing", "*"))
	if err != nil || len(left) != 1 || filepath.Ext(left[0]) != ".lock" {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestWaitingForALockEndsWithTheContext(t *testing.T) {
	s := newStore(t)
	entered, leave := make(chan struct{}), make(chan struct{})
	done := make(chan error, 1)
	go func() {
		_, err := s.Get(t.Context(), "thing", KeyOf("k"),
			func(ctx context.Context, dir string) error {
				close(entered)
				<-leave
				return nil
			})
		done <- err
	}()
	<-entered
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Get(ctx, "thing", KeyOf("k"), write("x")); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want context.Canceled", err)
	}
	close(leave)
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestPruneKeepsWhatIsUsedAndTheLatest(t *testing.T) {
	s := newStore(t)
	entries := make([]*Entry, 4)
	for i := range entries {
		e, err := s.Get(t.Context(), "thing", KeyOf(strconv.Itoa(i)), write("x"))
		if err != nil {
			t.Fatal(err)
		}
		at := time.Now().Add(time.Duration(i-10) * time.Hour)
		if err := os.Chtimes(sumFile(e.Dir), at, at); err != nil {
			t.Fatal(err)
		}
		entries[i] = e
	}
	for _, e := range entries[1:] {
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
	}
	removed, err := s.Prune("thing", 1)
	slices.Sort(removed)
	want := []string{entries[1].Dir, entries[2].Dir}
	slices.Sort(want)
	if err != nil || !slices.Equal(removed, want) {
		t.Errorf("removed %v, %v, want %v: the first is in use, the last is the latest",
			removed, err, want)
	}
	if err := entries[0].Close(); err != nil {
		t.Fatal(err)
	}
	if removed, err := s.Prune("thing", 0); err != nil || len(removed) != 2 {
		t.Errorf("removed %v, %v, want the other two", removed, err)
	}
}

func TestTempRemovesDirectoriesOfDeadOwners(t *testing.T) {
	s := newStore(t)
	dead, err := s.Temp(t.Context(), "run")
	if err != nil {
		t.Fatal(err)
	}
	alive, err := s.Temp(t.Context(), "run")
	if err != nil {
		t.Fatal(err)
	}
	if err := dead.lock.release(); err != nil { // as the kernel does for a process that was killed
		t.Fatal(err)
	}
	next, err := s.Temp(t.Context(), "run")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dead.Dir); !os.IsNotExist(err) {
		t.Errorf("the dead owner's folder is still there: %v", err)
	}
	if _, err := os.Stat(alive.Dir); err != nil {
		t.Errorf("a living owner's folder is gone: %v", err)
	}
	if err := errors.Join(alive.Close(), next.Close()); err != nil {
		t.Error(err)
	}
}

func TestLeftAttemptsAreRemovedAndNotUsed(t *testing.T) {
	s := newStore(t)
	old := s.Dir("thing", string(KeyOf("k"))+".tmp-1")
	if err := os.MkdirAll(filepath.Join(old, "half"), 0o755); err != nil {
		t.Fatal(err)
	}
	e, err := s.Get(t.Context(), "thing", KeyOf("k"), func(ctx context.Context, dir string) error {
		if dir == old {
			t.Error("built in what a killed builder may still write into")
		}
		return write("x")(ctx, dir)
	})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	if _, err := os.Stat(old); !os.IsNotExist(err) {
		t.Errorf("the directory of a killed builder is still there: %v", err)
	}
}
