package bpf

import (
	"errors"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mooring-vm/mooring/bpf/clonetest"
)

// TestReusedNumber runs two processes with the same number, one after the other.
func TestReusedNumber(t *testing.T) {
	group := newCgroup(t)
	tracker := open(t, Options{})
	register(t, tracker, group)
	r := record(t, tracker)
	first, err := cloneInto(t, group, 0)
	if err != nil {
		t.Fatal(err)
	}
	killAndReap(t, first)
	second, err := cloneInto(t, group, first)
	if errors.Is(err, unix.EPERM) {
		skipOrFail(t, "no right to choose a process number (set_tid): %v", err)
	}
	if err != nil || second != first {
		t.Fatalf("a second process with number %d: %d, %v", first, second, err)
	}
	eventually(t, func() bool {
		return len(r.matching(func(e Event) bool { return e.Kind == Fork && e.PID == first })) == 2
	}, "two processes with number %d", first)
	forks := r.matching(func(e Event) bool { return e.Kind == Fork })
	if forks[0].Process == forks[1].Process || r.wait(Exit, first).Process != forks[0].Process {
		t.Errorf("%+v, want two identities, and the end of the first", forks)
	}
	if p, _ := find(t, tracker, second); p.Process != forks[1].Process {
		t.Errorf("%+v, want %+v", p, forks[1].Process)
	}
	if _, err := tracker.Watch(forks[0].Process); !errors.Is(err, ErrNoProcess) {
		t.Errorf("watching the first: %v, want %v", err, ErrNoProcess)
	}
	killAndReap(t, second)
}

// TestReusedNumberOfAMissedExit leaves a process with a missed exit in the map and reuses its
// number.
func TestReusedNumberOfAMissedExit(t *testing.T) {
	tests := map[string]bool{"that is tracked": true, "that is not tracked": false}
	for name, tracked := range tests {
		t.Run(name, func(t *testing.T) {
			group := newCgroup(t)
			tracker := open(t, Options{})
			probe, err := cloneInto(t, group, 0)
			if err != nil {
				t.Fatal(err)
			}
			killAndReap(t, probe)
			stale := trackerProcess{Start: 5, Group: 6, Pid: uint32(probe), Emulator: 1}
			if err := tracker.edit(trackerChange{Tgid: uint32(probe), Process: stale}); err != nil {
				t.Fatal(err)
			}
			if tracked {
				register(t, tracker, group)
			}
			pid, err := cloneInto(t, group, probe)
			if errors.Is(err, unix.EPERM) {
				skipOrFail(t, "no right to choose a process number (set_tid): %v", err)
			}
			if err != nil {
				t.Fatal(err)
			}
			r := record(t, tracker)
			p, ok := find(t, tracker, pid)
			if ok != tracked || ok && p.Group != group.id {
				t.Errorf("snapshot has %+v (%t), want the new process: %t", p, ok, tracked)
			}
			killAndReap(t, pid)
			r.wait(Exit, runMarker(t))
			exits := r.matching(func(e Event) bool { return e.Kind == Exit && e.PID == pid })
			if len(exits) > 0 != tracked || tracked && exits[0].Group != group.id {
				t.Errorf("exits: %+v, want the new process's: %t", exits, tracked)
			}
			if s := figures(t, tracker); s.Stale != 1 || s.Processes != 0 {
				t.Errorf("figures: %+v, want one stale process found, and none left", s)
			}
		})
	}
}

// cloneInto starts a process in a cgroup, with the given number unless it is 0. The process waits
// for a signal.
func cloneInto(t *testing.T, c cgroup, number int) (int, error) {
	t.Helper()
	dir, err := os.Open(c.path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = dir.Close() }()
	return clonetest.Child{Signal: unix.SIGCHLD, Cgroup: dir, Number: number,
		Code: clonetest.Forever}.Start()
}
