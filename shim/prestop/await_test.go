package prestop

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// newAwaiter returns an awaiter that depends on notifications: it reads without one after a day.
func newAwaiter(file string) *awaiter {
	const day = 24 * time.Hour
	return &awaiter{file: file, watch: watch, safety: day, degraded: day}
}

// startAwait runs a and returns after the start of its first watch.
func startAwait(ctx context.Context, a *awaiter) <-chan error {
	first, done := make(chan struct{}), make(chan error, 1)
	inner := a.watch
	started := false
	a.watch = func(file string) (*os.File, error) {
		f, err := inner(file)
		if !started {
			started = true
			close(first)
		}
		return f, err
	}
	go func() { done <- a.await(ctx) }()
	<-first
	return done
}

func expectRequested(t *testing.T, done <-chan error) {
	t.Helper()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// touchIt makes a request.
func touchIt(t *testing.T, file string) {
	t.Helper()
	setTime(t, file, time.Now())
}

func TestAwaitRequest(t *testing.T) {
	for name, test := range map[string]func(t *testing.T, dir, file string){
		"before the watch": func(t *testing.T, _, file string) {
			touchIt(t, file)
			expectRequested(t, startAwait(t.Context(), newAwaiter(file)))
		},
		"during the watch": func(t *testing.T, _, file string) {
			done := startAwait(t.Context(), newAwaiter(file))
			touchIt(t, file)
			expectRequested(t, done)
		},
		"by another container, through its own mount": func(t *testing.T, dir, file string) {
			done := startAwait(t.Context(), newAwaiter(file))
			link := filepath.Join(dir, "link")
			if err := os.Symlink(dir, link); err != nil {
				t.Fatal(err)
			}
			touchIt(t, filepath.Join(link, "stop"))
			expectRequested(t, done)
		},
		"after a confirmation": func(t *testing.T, _, file string) {
			done := startAwait(t.Context(), newAwaiter(file))
			setTime(t, file, epoch)
			setTime(t, file, epoch)
			touchIt(t, file)
			expectRequested(t, done)
		},
		"of a file that did not exist": func(t *testing.T, dir, file string) {
			later := filepath.Join(dir, "later")
			done := startAwait(t.Context(), newAwaiter(later))
			if err := unix.Mkfifo(later, 0o666); err != nil {
				t.Fatal(err)
			}
			touchIt(t, later)
			expectRequested(t, done)
		},
		"of a file that was replaced": func(t *testing.T, dir, file string) {
			done := startAwait(t.Context(), newAwaiter(file))
			other := filepath.Join(dir, "other")
			if err := unix.Mkfifo(other, 0o666); err != nil {
				t.Fatal(err)
			}
			setTime(t, other, epoch)
			if err := os.Rename(other, file); err != nil {
				t.Fatal(err)
			}
			touchIt(t, file)
			expectRequested(t, done)
		},
		"after an overflow of the queue": func(t *testing.T, dir, file string) {
			a := newAwaiter(file)
			a.watch = func(file string) (*os.File, error) {
				f, err := watch(file)
				overflow(t, dir)
				a.watch = watch
				return f, err
			}
			done := startAwait(t.Context(), a)
			touchIt(t, file)
			expectRequested(t, done)
		},
	} {
		t.Run(name, func(t *testing.T) {
			file := stopFile(t)
			test(t, filepath.Dir(file), file)
		})
	}
}

// overflow fills the kernel's queue of a watched directory.
func overflow(t *testing.T, dir string) {
	t.Helper()
	text, err := os.ReadFile("/proc/sys/fs/inotify/max_queued_events")
	var most int
	_, scanErr := fmt.Sscan(string(text), &most)
	old, renamed := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	if err := errors.Join(err, scanErr, os.WriteFile(old, nil, 0o600)); err != nil {
		t.Error(err)
	}
	for range most + 1 {
		if err := os.Rename(old, renamed); err != nil {
			t.Error(err)
			return
		}
		old, renamed = renamed, old
	}
}

// Without notifications the file is read regularly.
func TestAwaitWithoutNotifications(t *testing.T) {
	for name, watch := range map[string]func(string) (*os.File, error){
		"refused": func(string) (*os.File, error) { return nil, unix.EMFILE },
		"lost": func(string) (*os.File, error) {
			return os.Open(os.DevNull) // has no deadlines
		},
	} {
		t.Run(name, func(t *testing.T) {
			file := stopFile(t)
			a := newAwaiter(file)
			a.watch, a.degraded = watch, time.Millisecond
			done := startAwait(t.Context(), a)
			touchIt(t, file)
			expectRequested(t, done)
		})
	}
	t.Run("not delivered", func(t *testing.T) {
		file := stopFile(t)
		a := newAwaiter(file)
		a.watch = func(string) (*os.File, error) { return watch(filepath.Join(t.TempDir(), "stop")) }
		a.safety = time.Millisecond
		done := startAwait(t.Context(), a)
		touchIt(t, file)
		expectRequested(t, done)
	})
}

// An idle wait reads the file once, and ends with its context.
func TestAwaitIdle(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "pod", "stop")
	for _, file := range []string{stopFile(t), missing} {
		a := newAwaiter(file)
		ctx, cancel := context.WithCancel(t.Context())
		done := startAwait(ctx, a)
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) || a.reads != 1 {
			t.Errorf("%s: %v after %d reads, want 1", file, err, a.reads)
		}
	}
}
