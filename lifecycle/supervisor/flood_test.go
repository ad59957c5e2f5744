package supervisor_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/mooring-vm/mooring/lifecycle/host"
	"github.com/mooring-vm/mooring/lifecycle/supervisor"
)

// countingTracker counts snapshots.
type countingTracker struct {
	supervisor.Tracker
	snapshots int
}

func (c *countingTracker) Snapshot() ([]supervisor.Tracked, bool, error) {
	c.snapshots++
	return c.Tracker.Snapshot()
}

// The tracker is full: it misses a process of pod "bad", and the VM process of pod "vm".
func TestMoreProcessesThanTheTrackerHolds(t *testing.T) {
	inBubble(t, nil, func(r *rig) {
		bad, good, l := r.launch("bad", nil), r.launch("good", nil), r.launch("vm", nil)
		r.tracker.Hide(r.startProcess(bad.cgroup), true)
		unknown := r.startProcess(l.cgroup)
		r.tracker.Exec(unknown, "qemu-kvm") // the supervisor gets no event
		r.tracker.Hide(unknown, true)
		r.requestStop(good)
		r.requestStop(l)
		r.advance(2 * time.Minute)
		if r.stopRequested(good) {
			t.Error("the stop of a fully tracked pod waits for processes of another pod")
		}
		if !r.stopRequested(l) {
			t.Error("stop confirmed although the tracker lacks processes of the pod")
		}
		r.tracker.Hide(unknown, false)
		r.advance(time.Minute + gracePeriod)
		r.expectSignals(unknown, "TERM")
		if r.stopRequested(l) {
			t.Error("stop never confirmed")
		}
	})
}

// Events about emulators outside of launchers, as from a pod that executes files named qemu-kvm in
// a loop, cause few snapshots.
func TestFloodOfUnrelatedEmulators(t *testing.T) {
	c := &countingTracker{}
	change := func(cfg *supervisor.Config) { c.Tracker, cfg.Tracker = cfg.Tracker, c }
	inBubble(t, change, func(r *rig) {
		r.launch("vm", withDomain)
		r.advance(time.Second)
		c.snapshots = 0
		for i := range 1000 { // in 10 seconds
			p := host.Process{PID: 5000 + i, StartTime: 1}
			tracked := supervisor.Tracked{Process: p, Executable: "qemu-kvm"}
			r.ProcessEvent(supervisor.ProcessEvent{Tracked: tracked})
			r.advance(10 * time.Millisecond)
		}
		if c.snapshots > 100 {
			t.Errorf("%d snapshots in 10 seconds, want at most 100", c.snapshots)
		}
	})
}

// suspendableClock adds the time for which the node was suspended.
type suspendableClock struct {
	host.Clock
	suspended *atomic.Int64 // nanoseconds
}

func (c suspendableClock) Now() host.Boottime {
	return c.Clock.Now() + host.Boottime(c.suspended.Load())
}

// The time of a suspension does not count as a missing heartbeat, because the pod could not send
// one.
func TestSuspendedNode(t *testing.T) {
	var suspended atomic.Int64
	change := func(c *supervisor.Config) {
		withAllStops(c)
		c.Clock = suspendableClock{c.Clock, &suspended}
	}
	inBubble(t, change, func(r *rig) {
		l := r.launch("vm", withWatchdog)
		r.heartbeat(l)
		vm := r.startQEMU(l.cgroup)
		suspended.Store(int64(5 * time.Minute))
		r.ScanLauncher(l.Container.ID)
		r.advance(watchdog / 2)
		r.expectSignals(vm)
		r.heartbeat(l)
		r.advance(watchdog / 2)
		r.expectSignals(vm)
		r.advance(watchdog)
		r.expectSignals(vm, "TERM")
	})
}
