package libvirt

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// watch watches a directory, and returns a channel that has the latest count of the
// domains there.
func watch(t *testing.T, dir string) <-chan int {
	t.Helper()
	r, counts := Records{dir}, make(chan int, 1)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- r.Watch(ctx, func() {
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
		if err := <-ended; err != nil {
			t.Errorf("Watch: %v", err)
		}
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
			t.Fatalf("%d domains were told of, want %d", last, want)
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
	counts := watch(t, dir)
	await(t, counts, 1)
	for range 100 { // a burst is told of at its end, however often in between
		replace(t, dir, "vm-1.xml", "libvirt-9.0.xml")
	}
	await(t, counts, 2)
	if err := os.Remove(filepath.Join(dir, "old.xml")); err != nil {
		t.Fatal(err)
	}
	await(t, counts, 1)
}

// libvirt may be started later than the agent, and its directory may go and come.
func TestWatchAwaitsDirectory(t *testing.T) {
	top := t.TempDir()
	dir := filepath.Join(top, "run", "libvirt", "qemu")
	counts := watch(t, dir)
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
