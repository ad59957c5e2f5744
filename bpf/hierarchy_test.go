package bpf

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestCgroupV1 moves a process into a cgroup v1 with the id of a registered cgroup v2: the ids are
// unrelated.
func TestCgroupV1(t *testing.T) {
	tracker := open(t, Options{})
	v1 := newCgroupV1(t)
	register(t, tracker, v1)
	r := record(t, tracker)
	c := shell(t, nil, "read line; exec sleep 600")
	move(t, v1, "cgroup.procs", c.pid())
	c.writeLine("exec")
	r.wait(Exit, runMarker(t))
	if got := r.matching(func(e Event) bool { return e.PID == c.pid() }); len(got) != 0 {
		t.Errorf("events: %+v, want none", got)
	}
	if changes, err := tracker.Resync(); err != nil || len(changes.Found) != 0 {
		t.Errorf("found %+v, %v, want none", changes.Found, err)
	}
}

const hierarchyName = "mooring-bpf-test"

// endHierarchy unmounts a hierarchy. The kernel removes it a little later, after all its cgroups.
// If cgroups remain, endHierarchy mounts and unmounts it again, because it would appear in the
// cgroup file of every process.
func endHierarchy(t *testing.T, root string) {
	t.Helper()
	for range 10 {
		if err := unix.Unmount(root, 0); err != nil {
			t.Error(err)
			return
		}
		for range 20 {
			text, err := os.ReadFile("/proc/self/cgroup")
			if err != nil || !strings.Contains(string(text), hierarchyName) {
				return
			}
			<-time.After(50 * time.Millisecond)
		}
		if err := unix.Mount("none", root, "cgroup", 0, "none,name="+hierarchyName); err != nil {
			t.Error(err)
			return
		}
	}
	t.Error(errors.Join(errors.New("the hierarchy does not end"), unix.Unmount(root, 0)))
}

// newCgroupV1 creates a cgroup in a new hierarchy without controllers.
func newCgroupV1(t *testing.T) cgroup {
	t.Helper()
	root := t.TempDir()
	if err := unix.Mount("none", root, "cgroup", 0, "none,name="+hierarchyName); err != nil {
		skipOrFail(t, "no cgroup v1 hierarchy can be mounted: %v", err)
	}
	t.Cleanup(func() { endHierarchy(t, root) })
	path := filepath.Join(root, "group")
	if err := os.Mkdir(path, 0o755); err != nil {
		t.Fatal(err)
	}
	var stat unix.Stat_t
	if err := unix.Stat(path, &stat); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		eventually(t, func() bool { return os.Remove(path) == nil }, "cgroup %s to be empty", path)
	})
	return cgroup{path, stat.Ino}
}
