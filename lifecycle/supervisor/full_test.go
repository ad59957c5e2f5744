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

// The tests of this file are about a tracker without room for another group.

var errFull = errors.New("the map is full")

type fullTracker struct {
	supervisor.Tracker
	hasRoom atomic.Bool
}

func (f *fullTracker) Register(cgroup string) (uint64, error) {
	if f.hasRoom.Load() {
		return f.Tracker.Register(cgroup)
	}
	return 0, errFull
}

// vmPlaces start a launcher's VM inside the pod or in the node's libvirt.
var vmPlaces = map[string]func(*rig, launcher) host.Process{
	"of the pod": func(r *rig, l launcher) host.Process { return r.startQEMU(l.cgroup + "/child") },
	"node-level": func(r *rig, _ launcher) host.Process { return r.startDomain("/machine/x") },
}

func withFullTracker(t *testing.T, test func(*rig, *fullTracker, launcher, func() host.Process)) {
	for name, start := range vmPlaces {
		t.Run(name, func(t *testing.T) {
			full := &fullTracker{}
			change := func(c *supervisor.Config) { full.Tracker, c.Tracker = c.Tracker, full }
			inBubble(t, change, func(r *rig) {
				l := r.launch("vm", withDomain)
				test(r, full, l, func() host.Process { return start(r, l) })
			})
		})
	}
}

func TestStopRequestWithoutAGroup(t *testing.T) {
	withFullTracker(t, func(r *rig, _ *fullTracker, l launcher, start func() host.Process) {
		vm := start()
		r.advance(time.Second)
		r.expectPhase(l, agentapi.PhaseActive, agentapi.VMRunning)
		r.requestStop(l)
		r.advance(time.Second)
		if !r.stopRequested(l) {
			r.t.Fatal("stop confirmed while the VM runs")
		}
		r.advance(gracePeriod + 2*termPeriod)
		if r.alive(vm) || r.stopRequested(l) {
			r.t.Errorf("VM alive: %t, stop request pending: %t", r.alive(vm), r.stopRequested(l))
		}
	})
}

func TestLauncherEndsWithoutAGroup(t *testing.T) {
	withFullTracker(t, func(r *rig, _ *fullTracker, l launcher, start func() host.Process) {
		vm, other := start(), r.startQEMU("/system.slice/labeller.service")
		r.advance(time.Second)
		r.exit(l.process, "SIGKILL")
		r.advance(gracePeriod + 2*termPeriod)
		if r.alive(vm) || r.HasPod(l.Pod.UID) {
			r.t.Errorf("VM alive: %t, tie kept: %t", r.alive(vm), r.HasPod(l.Pod.UID))
		}
		r.expectSignals(other)
	})
}

// The launcher then counts as tracked from the start.
func TestTrackerHasRoomAgain(t *testing.T) {
	withFullTracker(t, func(r *rig, full *fullTracker, l launcher, start func() host.Process) {
		vm := start()
		r.advance(time.Second)
		full.hasRoom.Store(true)
		r.advance(time.Minute)
		if got := r.tracker.Registered(); !slices.Equal(got, []string{l.cgroup}) {
			r.t.Fatalf("registered cgroups %v, want the launcher's", got)
		}
		all, _, err := r.tracker.Snapshot()
		at := slices.IndexFunc(all, func(p supervisor.Tracked) bool { return p.PID == vm.PID })
		if err != nil || at < 0 || all[at].Group != r.group(l) {
			r.t.Errorf("the VM is not in the launcher's group: %+v, %v", all, err)
		}
		r.expectPhase(l, agentapi.PhaseActive, agentapi.VMRunning)
	})
}

func TestNewTrackerIsFullAfterARestart(t *testing.T) {
	full := &fullTracker{}
	full.hasRoom.Store(true)
	change := func(c *supervisor.Config) { full.Tracker, c.Tracker = c.Tracker, full }
	inBubble(t, change, func(r *rig) {
		l := r.launch("vm", nil)
		r.stop()
		if err := r.tracker.Unregister(r.group(l)); err != nil {
			t.Fatal(err)
		}
		full.hasRoom.Store(false)
		r.start()
		vm := r.startQEMU(l.cgroup)
		r.requestStop(l)
		r.advance(time.Second)
		if !r.stopRequested(l) {
			t.Fatal("stop confirmed while the VM runs")
		}
		r.advance(gracePeriod)
		r.expectSignals(vm, "TERM")
	})
}
