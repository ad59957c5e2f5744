package libvirt

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fsnotify/fsnotify"
	"golang.org/x/sys/unix"
)

// counted watches a directory, and returns a channel with the latest number of domains.
func counted(t *testing.T, dir string) <-chan int {
	t.Helper()
	return countedBy(t, newWatch(Records{Dir: dir}))
}

func countedBy(t *testing.T, w *watch) <-chan int {
	t.Helper()
	r, counts := Records{Dir: w.dir}, make(chan int, 1)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		w.run(ctx, func() {
			all, _ := r.List()
			select {
			case <-counts:
			default:
			}
			counts <- len(all)
		})
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
	return counts
}

func await(t *testing.T, counts <-chan int, want int) {
	t.Helper()
	deadline := time.After(30 * time.Second)
	last := -1
	for last != want {
		select {
		case last = <-counts:
		case <-deadline:
			t.Fatalf("%d domains, want %d", last, want)
		}
	}
}

// replace writes a record as libvirt does.
func replace(t *testing.T, dir, name, from string) {
	t.Helper()
	path := filepath.Join(dir, name)
	write(t, dir, name+".new", read(t, from))
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

func TestWatch(t *testing.T) {
	dir := t.TempDir()
	replace(t, dir, "old.xml", "libvirt-1.3.xml")
	counts := counted(t, dir)
	await(t, counts, 1)
	for range 100 { // one call at the end of a burst is enough
		replace(t, dir, "vm-1.xml", "libvirt-9.0.xml")
	}
	await(t, counts, 2)
	if err := os.Remove(filepath.Join(dir, "old.xml")); err != nil {
		t.Fatal(err)
	}
	await(t, counts, 1)
}

// libvirt may start after the agent, and its directory may disappear and appear again.
func TestWatchAwaitsDirectory(t *testing.T) {
	top := t.TempDir()
	dir := filepath.Join(top, "run", "libvirt", "qemu")
	counts := counted(t, dir)
	await(t, counts, 0)
	for range 3 {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		replace(t, dir, "vm-1.xml", "libvirt-9.0.xml")
		await(t, counts, 1)
		replace(t, dir, "old.xml", "libvirt-1.3.xml")
		await(t, counts, 2)
		if err := os.RemoveAll(filepath.Join(top, "run")); err != nil {
			t.Fatal(err)
		}
		await(t, counts, 0)
	}
}

// Without notifications of the kernel, Watch polls until they work.
func TestWatchWithoutNotifications(t *testing.T) {
	var log bytes.Buffer
	var refused, allowed atomic.Int32
	var fault atomic.Pointer[error]
	dir := t.TempDir()
	w := newWatch(Records{Dir: dir, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	w.poll = time.Millisecond
	none := error(unix.EMFILE)
	fault.Store(&none)
	w.connect = func() (*fsnotify.Watcher, error) {
		if err := *fault.Load(); err != nil {
			refused.Add(1)
			return nil, err
		}
		allowed.Add(1)
		return fsnotify.NewWatcher()
	}
	t.Run("watch", func(t *testing.T) {
		counts := countedBy(t, w)
		await(t, counts, 0)
		replace(t, dir, "old.xml", "libvirt-1.3.xml")
		await(t, counts, 1)
		for refused.Load() < 10 {
			<-time.After(time.Millisecond)
		}
		var enough error
		fault.Store(&enough)
		replace(t, dir, "vm-1.xml", "libvirt-9.0.xml")
		await(t, counts, 2)
		for allowed.Load() == 0 {
			<-time.After(time.Millisecond)
		}
	})
	for _, want := range []string{"sends no notifications about libvirt's records",
		unix.EMFILE.Error(), "sends notifications about libvirt's records again"} {
		if got := strings.Count(log.String(), want); got != 1 {
			t.Errorf("%q is logged %d times, want once:\n%s", want, got, &log)
		}
	}
}

// Watch polls a directory if the kernel has no watches left for its parents.
func TestWatchWithoutWatches(t *testing.T) {
	dir := filepath.Join(t.TempDir(), strings.Repeat("x", 300)) // ENAMETOOLONG stands for ENOSPC
	w := newWatch(Records{Dir: dir})
	w.poll = time.Millisecond
	ctx, cancel := context.WithCancel(t.Context())
	calls := 0
	w.run(ctx, func() {
		if calls++; calls == 3 {
			cancel()
		}
	})
	if calls < 3 {
		t.Errorf("%d calls", calls)
	}
}
