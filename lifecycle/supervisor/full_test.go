package supervisor_test

import (
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/lifecycle/host"
	"github.com/mooring-vm/mooring/lifecycle/supervisor"
)

// The tests of this file are of a tracker that has no room for another group.

var errFull = errors.New("the map is full")

type fullTracker struct {
	supervisor.Tracker
	room atomic.Bool
}

func (f *fullTracker) Register(cgroup string) (uint64, error) {
	if f.room.Load() {
		return f.Tracker.Register(cgroup)
	}
	return 0, errFull
}

// placements are where a launcher's VM can be.
var placements = map[string]func(*rig, launcher) host.Process{
	"of the pod": func(r *rig, l launcher) host.Process { return r.qemu(l.cgroup + "/child") },
	"node-level": func(r *rig, _ launcher) host.Process { return r.domain("/machine/x") },
}

func withoutRoom(t *testing.T, test func(*rig, *fullTracker, launcher, func() host.Process)) {
	for name, start := range placements {
		t.Run(name, func(t *testing.T) {
			full := &fullTracker{}
			inBubble(t, func(c *supervisor.Config) { full.Tracker, c.Tracker = c.Tracker, full }, func(r *rig) {
				l := r.launch("vm", declares)
				test(r, full, l, func() host.Process { return start(r, l) })
			})
		})
	}
}

func TestStopAskedWithoutAGroup(t *testing.T) {
	withoutRoom(t, func(r *rig, _ *fullTracker, l launcher, start func() host.Process) {
		vm := start()
		r.after(time.Second)
		r.is(l, agentapi.PhaseActive, agentapi.VMRunning)
		r.ask(l)
		r.after(time.Second)
		if !r.stopAsked(l) {
			r.t.Fatal("confirmed while the VM runs")
		}
		r.after(grace + 2*term)
		if r.lives(vm) || r.stopAsked(l) {
			r.t.Errorf("VM lives: %t, stop asked: %t", r.lives(vm), r.stopAsked(l))
		}
	})
}

func TestOwnerGoneWithoutAGroup(t *testing.T) {
	withoutRoom(t, func(r *rig, _ *fullTracker, l launcher, start func() host.Process) {
		vm, other := start(), r.qemu("/system.slice/labeller.service")
		r.after(time.Second)
		r.exit(l.owner, "SIGKILL")
		r.after(grace + 2*term)
		if r.lives(vm) || r.HasPod(l.Pod.UID) {
			r.t.Errorf("VM lives: %t, its pod is known: %t", r.lives(vm), r.HasPod(l.Pod.UID))
		}
		r.sent(other)
	})
}

// TestRoomAgain: the launcher is tracked as if it always had been.
func TestRoomAgain(t *testing.T) {
	withoutRoom(t, func(r *rig, full *fullTracker, l launcher, start func() host.Process) {
		vm := start()
		r.after(time.Second)
		full.room.Store(true)
		r.after(time.Minute)
		if got := r.tracker.Registered(); !slices.Equal(got, []string{l.cgroup}) {
			r.t.Fatalf("registered are %v", got)
		}
		all, _, err := r.tracker.Snapshot()
		at := slices.IndexFunc(all, func(p supervisor.Tracked) bool { return p.PID == vm.PID })
		if err != nil || at < 0 || all[at].Group != r.group(l) {
			r.t.Errorf("the VM is not tracked as the launcher's: %+v, %v", all, err)
		}
		r.is(l, agentapi.PhaseActive, agentapi.VMRunning)
	})
}

// TestNoRoomAfterARestart: the tracker was made anew, and has no room for what it had.
func TestNoRoomAfterARestart(t *testing.T) {
	full := &fullTracker{}
	full.room.Store(true)
	inBubble(t, func(c *supervisor.Config) { full.Tracker, c.Tracker = c.Tracker, full }, func(r *rig) {
		l := r.launch("vm", nil)
		r.stop()
		if err := r.tracker.Unregister(r.group(l)); err != nil {
			t.Fatal(err)
		}
		full.room.Store(false)
		r.start()
		vm := r.qemu(l.cgroup)
		r.ask(l)
		r.after(time.Second)
		if !r.stopAsked(l) {
			t.Fatal("confirmed while the VM runs")
		}
		r.after(grace)
		r.sent(vm, "TERM")
	})
}
