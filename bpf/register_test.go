package bpf

import (
	"errors"
	"os"
	"slices"
	"testing"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"
)

func TestRegister(t *testing.T) {
	tracker := open(t, Options{MaxGroups: 2})
	for _, id := range []uint64{20, 10, 20} {
		if err := tracker.Register(id); err != nil {
			t.Fatal(err)
		}
	}
	if err := tracker.Register(0); err == nil {
		t.Error("cgroup 0 was registered")
	}
	if err := tracker.Register(30); !errors.Is(err, ErrFull) {
		t.Errorf("a third of two: %v, want %v", err, ErrFull)
	}
	wantRegistered(t, &tracker.View, 10, 20)
	for range 2 {
		if err := tracker.Unregister(10); err != nil {
			t.Fatal(err)
		}
	}
	wantRegistered(t, &tracker.View, 20)
}

func wantRegistered(t *testing.T, view *View, want ...uint64) {
	t.Helper()
	got, err := view.Registered()
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("registered: %d, %v, want %d", got, err, want)
	}
}

// TestResyncFindsMembers registers a cgroup with processes. One of them has a child in another
// cgroup.
func TestResyncFindsMembers(t *testing.T) {
	group := newCgroup(t)
	c := shell(t, &group, "sleep 600 </dev/null & echo $!; wait")
	moved := c.readNumber()
	move(t, newCgroup(t), "cgroup.procs", moved)
	tracker := open(t, Options{})
	register(t, tracker, group)
	changes, err := tracker.Resync()
	if err != nil {
		t.Fatal(err)
	}
	if len(changes.Found) != 2 || len(changes.Gone) != 0 {
		t.Errorf("changes: %+v, want two processes found", changes)
	}
	for _, pid := range []int{c.pid(), moved} {
		if p, ok := find(t, tracker, pid); !ok || p.Group != group.id {
			t.Errorf("process %d: %+v (%t), want group %d", pid, p, ok, group.id)
		}
	}
	if changes, err := tracker.Resync(); err != nil || len(changes.Found)+len(changes.Gone) != 0 {
		t.Errorf("again: %+v, %v, want no new process", changes, err)
	}
}

func TestUnregisteredGroupKeepsItsProcesses(t *testing.T) {
	group := newCgroup(t)
	tracker := open(t, Options{})
	register(t, tracker, group)
	r := record(t, tracker)
	c := shell(t, &group, "read line")
	unregister(t, tracker, group)
	if p, _ := find(t, tracker, c.pid()); p.Group != group.id {
		t.Errorf("%+v, want group %d", p, group.id)
	}
	c.kill()
	r.wait(Exit, c.pid())
}

func TestBind(t *testing.T) {
	group, other := newCgroup(t), newCgroup(t)
	tracker := open(t, Options{})
	register(t, tracker, other)
	r := record(t, tracker)
	c := shell(t, nil, "read line; sleep 600 </dev/null & echo $!; wait")
	if err := tracker.Bind(identify(t, c.pid()), group.id); err != nil {
		t.Fatal(err)
	}
	move(t, other, "cgroup.procs", c.pid())
	if e := r.wait(Move, c.pid()); e.Group != group.id || e.Cgroup != other.id || !e.Bound {
		t.Errorf("%+v, want group %d in cgroup %d", e, group.id, other.id)
	}
	c.writeLine("fork")
	if e := r.wait(Fork, c.readNumber()); e.Group != group.id || !e.Bound {
		t.Errorf("%+v, want group %d", e, group.id)
	}
	if changes, err := tracker.Resync(); err != nil || len(changes.Found) != 0 {
		t.Errorf("found %+v, %v, want none", changes.Found, err)
	}
}

// identify returns the identity of a process from /proc, with its start time in ticks.
func identify(t *testing.T, pid int) Process {
	t.Helper()
	p, err := procfs.NewProc(pid)
	if err != nil {
		t.Fatal(err)
	}
	stat, err := p.Stat()
	if err != nil {
		t.Fatal(err)
	}
	return Process{PID: pid, StartTime: stat.Starttime * tick}
}

func TestNoSuchProcess(t *testing.T) {
	tracker := open(t, Options{})
	self := identify(t, os.Getpid())
	tests := map[string]Process{
		"no such number":      {PID: 1 << 29, StartTime: self.StartTime},
		"another start":       {PID: self.PID, StartTime: self.StartTime - tick},
		"another nanosecond":  {PID: self.PID, StartTime: self.StartTime + 1},
		"a thread's number":   {PID: thread(t), StartTime: self.StartTime},
		"a number below zero": {PID: -1, StartTime: self.StartTime},
	}
	for name, p := range tests {
		if _, err := tracker.Watch(p); !errors.Is(err, ErrNoProcess) {
			t.Errorf("%s: %v, want %v", name, err, ErrNoProcess)
		}
		if err := tracker.Bind(p, 1); !errors.Is(err, ErrNoProcess) {
			t.Errorf("%s: %v, want %v", name, err, ErrNoProcess)
		}
	}
	got, err := tracker.Watch(self)
	if err != nil || got.StartTime%tick == 0 || got.Ticks() != self.Ticks() || got.PID != self.PID {
		t.Errorf("this process: %+v, %v, want the exact start of %+v", got, err, self)
	}
	if again, err := tracker.Watch(got); err != nil || again != got {
		t.Errorf("again: %+v, %v, want %+v", again, err, got)
	}
}

// thread returns the number of a thread other than the first.
func thread(t *testing.T) int {
	t.Helper()
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Fatal(err)
	}
	last := 0
	for _, e := range threads {
		if n := atoi(t, e.Name()); n != unix.Getpid() {
			last = n
		}
	}
	return last
}
