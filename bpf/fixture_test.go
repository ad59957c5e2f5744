package bpf

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// emulatorName is the name of the tests' emulators. Like qemu-system-x86_64, it is longer than a
// thread name can be.
const emulatorName = "mooring-test-emulator"

const deadline = 2 * time.Minute

// skipOrFail skips a test because of a missing requirement, or fails it under MOORING_CI_REQUIRE.
func skipOrFail(t testing.TB, format string, args ...any) {
	t.Helper()
	if os.Getenv("MOORING_REQUIRE_BPF") != "" {
		t.Fatalf(format, args...)
	}
	t.Skipf(format, args...)
}

// open opens a tracker for the test.
func open(t testing.TB, o Options) *Tracker {
	t.Helper()
	if o.Emulators == nil {
		o.Emulators = []string{emulatorName}
	}
	if o.readInterval == 0 {
		o.readInterval = 10 * time.Millisecond
	}
	tracker, err := Open(o)
	if errors.Is(err, ErrUnsupported) {
		skipOrFail(t, "%v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tracker.Close() })
	return tracker
}

// bpffs mounts a bpf file system for the test.
func bpffs(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount("bpf", dir, "bpf", 0, ""); err != nil {
		skipOrFail(t, "no bpf file system can be mounted: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return filepath.Join(dir, "mooring")
}

// cgroup is a cgroup that belongs to the test.
type cgroup struct {
	path string
	id   uint64
}

func newCgroup(t testing.TB) cgroup {
	t.Helper()
	return cgroupBelow(t, cgroupRoot(t), "mooring-bpf-test-"+filepath.Base(t.TempDir())+"-"+
		strings.ToLower(time.Now().Format("150405.000000000")))
}

func cgroupRoot(t testing.TB) string {
	t.Helper()
	for _, root := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified"} {
		if _, err := CgroupID(root); err == nil {
			return root
		}
	}
	skipOrFail(t, "no cgroup v2 is mounted at /sys/fs/cgroup or /sys/fs/cgroup/unified")
	return ""
}

func cgroupBelow(t testing.TB, parent, name string) cgroup {
	t.Helper()
	path := filepath.Join(parent, name)
	if err := os.Mkdir(path, 0o755); err != nil {
		skipOrFail(t, "no cgroup can be made: %v", err)
	}
	id, err := CgroupID(path)
	if err != nil {
		t.Fatal(err)
	}
	c := cgroup{path, id}
	t.Cleanup(func() { c.remove(t) })
	return c
}

func (c cgroup) remove(t testing.TB) {
	_ = os.WriteFile(filepath.Join(c.path, "cgroup.kill"), []byte("1"), 0)
	eventually(t, func() bool { return os.Remove(c.path) == nil }, "cgroup %s to be empty", c.path)
}

func (c cgroup) below(t testing.TB, name string) cgroup {
	t.Helper()
	return cgroupBelow(t, c.path, name)
}

// eventually polls until the condition holds.
func eventually(t testing.TB, holds func() bool, format string, args ...any) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	defer cancel()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-ctx.Done():
			t.Fatalf("waited %v for "+format, append([]any{deadline}, args...)...)
		case <-tick.C:
		}
	}
}

// recorder collects the events of a tracker.
type recorder struct {
	t      testing.TB
	mu     sync.Mutex
	events []Event
	stop   func()
}

func record(t testing.TB, tracker *Tracker) *recorder {
	ctx, cancel := context.WithCancel(context.Background())
	r := &recorder{t: t}
	done := make(chan error, 1)
	go func() { done <- tracker.Events(ctx, r.add) }()
	r.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("Events: %v", err)
		}
	})
	t.Cleanup(r.stop)
	return r
}

func (r *recorder) add(e Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, e)
}

// matching returns the events that match the condition.
func (r *recorder) matching(is func(Event) bool) []Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(r.events), func(e Event) bool { return !is(e) })
}

// wait waits for an event of a process.
func (r *recorder) wait(kind Kind, pid int) Event {
	r.t.Helper()
	return r.waitFor(func(e Event) bool { return e.Kind == kind && e.PID == pid },
		"%v of %d", kind, pid)
}

func (r *recorder) waitFor(is func(Event) bool, format string, args ...any) Event {
	r.t.Helper()
	var got []Event
	eventually(r.t, func() bool {
		got = r.matching(is)
		return len(got) > 0
	}, format, args...)
	return got[0]
}

// find returns a process from a snapshot.
func find(t testing.TB, tracker *Tracker, pid int) (Tracked, bool) {
	t.Helper()
	all, err := tracker.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(all, func(p Tracked) bool { return p.PID == pid })
	if at < 0 {
		return Tracked{}, false
	}
	return all[at], true
}

// runMarker runs an emulator and returns its number. Its exit event follows all earlier events.
func runMarker(t testing.TB) int {
	t.Helper()
	return runProgram(t, exec.Command(emulator(t), "0"))
}
