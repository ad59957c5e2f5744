package bpf

import (
	"errors"
	"testing"

	"golang.org/x/sys/unix"
)

// TestChangesOfEndingProcesses binds processes while they end and while others start, and wants no
// other process to be bound.
func TestChangesOfEndingProcesses(t *testing.T) {
	victims, others := newCgroup(t), newCgroup(t)
	tracker := open(t, Options{MaxProcesses: 64})
	register(t, tracker, victims)
	register(t, tracker, others)
	const group = 1 << 40
	for range 100 {
		pid, err := cloneInto(t, victims, 0)
		if err != nil {
			t.Fatal(err)
		}
		victim := identify(t, pid)
		bound := make(chan error, 1)
		go func() { bound <- tracker.Bind(victim, group) }()
		killAndReap(t, pid)
		var started []int
		for range 4 {
			other, err := cloneInto(t, others, 0)
			if err != nil {
				t.Fatal(err)
			}
			started = append(started, other)
		}
		if err := <-bound; err != nil && !errors.Is(err, ErrNoProcess) {
			t.Errorf("Bind: %v, want success or %v", err, ErrNoProcess)
		}
		wantTracked(t, tracker, others, started...)
		for _, other := range started {
			killAndReap(t, other)
		}
	}
	resync(t, tracker)
	wantEntryCounts(t, tracker, 0)
}

// TestLockedEntry ends and changes processes during another change: the kernel must not reuse their
// entries, and the losses are counted.
func TestLockedEntry(t *testing.T) {
	eachVariant(t, func(t *testing.T, o Options) {
		group, other := newCgroup(t), newCgroup(t)
		tracker := open(t, o)
		register(t, tracker, group)
		register(t, tracker, other)
		r := record(t, tracker)
		ends, moves := shell(t, &group, "read line"), shell(t, &group, "read line")
		r.wait(Exec, ends.pid())
		r.wait(Exec, moves.pid())
		setHolders(t, tracker, 1)
		ends.kill()
		move(t, other, "cgroup.procs", moves.pid())
		r.waitFor(func(e Event) bool { return e.Kind == Lost }, "an event Lost")
		if err := tracker.Bind(identify(t, moves.pid()), 5); !errors.Is(err, unix.EBUSY) {
			t.Errorf("Bind: %v, want %v", err, unix.EBUSY)
		}
		wantTracked(t, tracker, group, moves.pid())
		wantEntryCounts(t, tracker, 2)
		setHolders(t, tracker, 0)
		changes, err := tracker.Resync()
		if err != nil || len(changes.Gone) != 1 || len(changes.Found) != 1 {
			t.Errorf("changes: %+v, %v, want one process gone and one moved", changes, err)
		}
		wantTracked(t, tracker, other, moves.pid())
		wantEntryCounts(t, tracker, 1)
	})
}

// setHolders sets the number of programs at each lock, as if one were in the middle of a change.
func setHolders(t *testing.T, tracker *Tracker, n uint32) {
	t.Helper()
	var locks trackerLocks
	for i := range locks.Holders {
		locks.Holders[i] = n
	}
	if err := tracker.maps[trackerMapLocked].Put(uint32(0), &locks); err != nil {
		t.Fatal(err)
	}
}
