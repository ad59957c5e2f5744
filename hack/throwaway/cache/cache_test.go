package cache

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
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
			e, err := s.Get(t.Context(), "thing", KeyOf("k"), func(ctx context.Context, dir string) error {
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
		"added":     func(dir string) error { return os.WriteFile(filepath.Join(dir, "g"), nil, 0o644) },
		"unsummed":  func(dir string) error { return os.Remove(manifest(dir)) },
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
		_, err := s.Get(t.Context(), "thing", KeyOf("k"), func(ctx context.Context, dir string) error {
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

func TestCleanKeepsWhatIsUsed(t *testing.T) {
	s := newStore(t)
	e := get(t, s, write("x"))
	if removed, err := s.Clean("thing"); err != nil || len(removed) != 0 {
		t.Errorf("removed %v, %v while in use", removed, err)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	if removed, err := s.Clean("thing"); err != nil || len(removed) != 1 {
		t.Errorf("removed %v, %v, want the one entry", removed, err)
	}
}
