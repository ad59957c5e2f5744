package poddir

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fsnotify/fsnotify"
	"golang.org/x/sys/unix"
)

// watched is a Watch with periods chosen by the test. An hour means never.
type watched struct {
	dirs  *Dirs
	watch *touchWatch
	calls chan string // each call of changed
	log   *bytes.Buffer
	stop  func()
}

func newWatched(t *testing.T, change func(*touchWatch)) *watched {
	t.Helper()
	dirs, err := Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	w := &watched{dirs: dirs, calls: make(chan string, 1000), log: &bytes.Buffer{}}
	dirs.Logger = slog.New(slog.NewTextHandler(w.log, nil))
	w.watch = newTouchWatch(dirs, func(uid string) { w.calls <- uid })
	w.watch.pause, w.watch.poll, w.watch.pollDegraded = time.Millisecond, time.Hour, time.Hour
	change(w.watch)
	if !dirs.changes.start() {
		t.Fatal("another Watch runs")
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	w.stop = func() { cancel(); <-done }
	t.Cleanup(func() {
		w.stop()
		if err := dirs.Close(); err != nil {
			t.Error(err)
		}
	})
	go func() { defer close(done); w.watch.run(ctx) }()
	return w
}

func (w *watched) create(t *testing.T, uid string) Dir {
	t.Helper()
	dir, err := w.dirs.Create(uid)
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// await waits for a call about a pod in the expected state.
func (w *watched) await(t *testing.T, uid string, want func(Touched) bool) {
	t.Helper()
	deadline := time.After(30 * time.Second)
	for {
		select {
		case got := <-w.calls:
			if touched, err := w.dirs.Touched(got); got == uid && err == nil && want(touched) {
				return
			}
		case <-deadline:
			t.Fatalf("no expected call of changed for %s", uid)
		}
	}
}

// awaitUnwatched waits until the watch ignores these files.
func (w *watched) awaitUnwatched(t *testing.T, files ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	ticker := time.NewTicker(time.Millisecond)
	defer ticker.Stop()
	listening := func(file string) bool {
		return slices.Contains(w.watch.inotify.WatchList(), file)
	}
	for slices.ContainsFunc(files, listening) {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			t.Fatalf("still watched: %v", w.watch.inotify.WatchList())
		}
	}
}

func stopRequested(s Touched) bool { return s.StopRequested }
func hasHeartbeat(s Touched) bool  { return !s.Heartbeat.IsZero() }

func touchNow(path string) error {
	now := []unix.Timespec{{Nsec: unix.UTIME_NOW}, {Nsec: unix.UTIME_NOW}}
	return unix.UtimesNanoAt(unix.AT_FDCWD, path, now, 0)
}

func mustTouch(t *testing.T, path string) {
	t.Helper()
	if err := touchNow(path); err != nil {
		t.Fatal(err)
	}
}

// A pod appears before, during and after the start of Watch, and its directory is re-created under
// the same name. Only notifications can report it, because no scan happens.
func TestWatchUsesNotifications(t *testing.T) {
	w := newWatched(t, func(s *touchWatch) { s.poll = time.Hour })
	for range 3 {
		dir := w.create(t, "a")
		mustTouch(t, dir.Heartbeat)
		w.await(t, "a", hasHeartbeat)
		for range 3 {
			mustTouch(t, dir.Stop)
			w.await(t, "a", stopRequested)
			if err := w.dirs.ConfirmStop("a"); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.dirs.DiscardUnless("a", func(string) bool { return false }); err != nil {
			t.Fatal(err)
		}
		if err := w.dirs.EmptyTrash(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

func TestWatchStartsWithTouchedPods(t *testing.T) {
	dirs, err := Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer dirs.Close()
	for _, uid := range []string{"quiet", "asks"} {
		if _, err := dirs.Create(uid); err != nil {
			t.Fatal(err)
		}
	}
	mustTouch(t, dirs.Dir("asks").Stop)
	ctx, cancel := context.WithCancel(t.Context())
	var reported []string
	if err := dirs.Watch(ctx, func(uid string) {
		reported = append(reported, uid)
		cancel()
	}); err != nil {
		t.Fatal(err)
	}
	if fmt.Sprint(reported) != "[asks]" {
		t.Errorf("changed was called for %v", reported)
	}
	if len(dirs.changes.some) != 0 {
		t.Error("the changes from before the start of Watch were collected")
	}
}

func TestWatchOnce(t *testing.T) {
	w := newWatched(t, func(*touchWatch) {})
	if err := w.dirs.Watch(t.Context(), func(string) {}); err == nil ||
		!strings.Contains(err.Error(), "already") {
		t.Errorf("a second Watch = %v", err)
	}
}

// A pod that touches its files in a loop is reported once per file and pause, and delays no other
// pod. Here the pause never ends.
func TestWatchWithTouchesInALoop(t *testing.T) {
	w := newWatched(t, func(s *touchWatch) { s.pause = time.Hour })
	noisy, other := w.create(t, "noisy"), w.create(t, "other")
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		var err error
		// more than the kernel's queue holds
		for n := 0; err == nil && (ctx.Err() == nil || n < 20_000); n++ {
			err = errors.Join(touchNow(noisy.Heartbeat), touchNow(noisy.Stop))
		}
		ended <- err
	}()
	w.await(t, "noisy", stopRequested)
	mustTouch(t, other.Stop)
	w.await(t, "other", stopRequested)
	w.awaitUnwatched(t, noisy.Heartbeat, noisy.Stop)
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	w.stop()
	if n := len(w.calls); n > 10 { // the pods are found at the start, and as new ones
		t.Errorf("%d more calls of changed, want at most 10", n)
	}
	if w.log.Len() != 0 {
		t.Errorf("log: %s, want it empty", w.log)
	}
}

// Touches during the pause are reported after it. Each heartbeat needs its own time, because two
// within a tick of the kernel's coarse clock look like one.
func TestWatchAfterAPause(t *testing.T) {
	w := newWatched(t, func(s *touchWatch) { s.pause = 50 * time.Millisecond })
	dir := w.create(t, "a")
	for n := range 10 {
		at := time.Unix(int64(n+1), 0)
		if err := os.Chtimes(dir.Heartbeat, at, at); err != nil {
			t.Fatal(err)
		}
		w.await(t, "a", func(s Touched) bool { return s.Heartbeat.Equal(at) })
	}
}

// Without notifications for some pods, scans report them, and the log has one warning.
func TestWatchWithoutNotifications(t *testing.T) {
	w := newWatched(t, func(s *touchWatch) {
		s.connect = func() (*fsnotify.Watcher, error) { return nil, unix.EMFILE }
		s.poll, s.pollDegraded = time.Hour, time.Millisecond
	})
	dir := w.create(t, "a")
	for range 3 {
		mustTouch(t, dir.Stop)
		w.await(t, "a", stopRequested)
		if err := w.dirs.ConfirmStop("a"); err != nil {
			t.Fatal(err)
		}
	}
	w.stop()
	if got := strings.Count(w.log.String(), "\n"); got != 1 ||
		!strings.Contains(w.log.String(), "too many open files") {
		t.Errorf("%d lines in the log: %s", got, w.log)
	}
}

// Restored notifications restore the long period.
func TestWatchRecovers(t *testing.T) {
	attempts, connected := 0, make(chan struct{})
	w := newWatched(t, func(s *touchWatch) {
		s.poll, s.pollDegraded = time.Hour, time.Millisecond
		s.connect = func() (*fsnotify.Watcher, error) {
			if attempts++; attempts < 3 {
				return nil, unix.EMFILE
			}
			close(connected)
			return fsnotify.NewWatcher()
		}
	})
	dir := w.create(t, "a")
	<-connected
	for range 3 {
		mustTouch(t, dir.Stop)
		w.await(t, "a", stopRequested)
		if err := w.dirs.ConfirmStop("a"); err != nil {
			t.Fatal(err)
		}
	}
	w.stop()
	if attempts != 3 || !strings.Contains(w.log.String(), "again") {
		t.Errorf("%d attempts; log: %s", attempts, w.log)
	}
}

// An overflow of the queue causes a scan of all pods.
func TestWatchAfterAnOverflow(t *testing.T) {
	inotify, err := fsnotify.NewWatcher()
	if err != nil {
		t.Fatal(err)
	}
	inotify.Events = make(chan fsnotify.Event) // all of them are lost
	w := newWatched(t, func(s *touchWatch) {
		s.connect = func() (*fsnotify.Watcher, error) { return inotify, nil }
		dir, err := s.dirs.Create("a")
		if err = errors.Join(err, touchNow(dir.Heartbeat)); err != nil {
			t.Fatal(err)
		}
	})
	w.await(t, "a", hasHeartbeat) // the first scan is over
	mustTouch(t, w.dirs.Dir("a").Stop)
	inotify.Errors <- fsnotify.ErrEventOverflow
	w.await(t, "a", stopRequested)
}

func TestWatchPolls(t *testing.T) {
	w := newWatched(t, func(s *touchWatch) { s.pause, s.poll = time.Hour, time.Millisecond })
	dir := w.create(t, "a")
	mustTouch(t, dir.Heartbeat)
	w.await(t, "a", hasHeartbeat)
	at := time.Unix(5, 0) // the file has no watch any more
	if err := os.Chtimes(dir.Heartbeat, at, at); err != nil {
		t.Fatal(err)
	}
	w.await(t, "a", func(s Touched) bool { return s.Heartbeat.Equal(at) })
}
