package supervisor_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/mooring-vm/mooring/lifecycle/host"
	"github.com/mooring-vm/mooring/lifecycle/supervisor"
)

// countedTracker counts looks.
type countedTracker struct {
	supervisor.Tracker
	looks int
}

func (c *countedTracker) Snapshot() ([]supervisor.Tracked, bool, error) {
	c.looks++
	return c.Tracker.Snapshot()
}

// TestNoRoom: there are more processes than the tracker has room for.
func TestNoRoom(t *testing.T) {
	inBubble(t, nil, func(r *rig) {
		bad, good, l := r.launch("bad", nil), r.launch("good", nil), r.launch("vm", nil)
		r.tracker.Hide(r.process(bad.cgroup), true)
		unknown := r.process(l.cgroup)
		r.tracker.Exec(unknown, "qemu-kvm") // of which nobody tells
		r.tracker.Hide(unknown, true)
		r.ask(good)
		r.ask(l)
		r.after(2 * time.Minute)
		if r.stopAsked(good) {
			t.Error("a pod of which all is known waits for another's processes")
		}
		if !r.stopAsked(l) {
			t.Error("confirmed although not all processes of the pod are known")
		}
		r.tracker.Hide(unknown, false)
		r.after(time.Minute + grace)
		r.sent(unknown, "TERM")
		if r.stopAsked(l) {
			t.Error("never confirmed")
		}
	})
}

// TestFloodOfStrangers: a plain pod executes files with the name of an emulator.
func TestFloodOfStrangers(t *testing.T) {
	c := &countedTracker{}
	inBubble(t, func(cfg *supervisor.Config) { c.Tracker, cfg.Tracker = cfg.Tracker, c }, func(r *rig) {
		r.launch("vm", declares)
		r.after(time.Second)
		c.looks = 0
		for i := range 1000 { // in 10 seconds
			p := host.Process{PID: 5000 + i, StartTime: 1}
			r.ProcessEvent(supervisor.ProcessEvent{Tracked: supervisor.Tracked{Process: p, Executable: "qemu-kvm"}})
			r.after(10 * time.Millisecond)
		}
		if c.looks > 100 {
			t.Errorf("%d looks in 10 seconds", c.looks)
		}
	})
}

// sleptClock has slept a while.
type sleptClock struct {
	host.Clock
	slept *atomic.Int64 // nanoseconds
}

func (c sleptClock) Now() host.Boottime {
	return c.Clock.Now() + host.Boottime(c.slept.Load())
}

// TestSuspendedNode: nobody could give a sign of life, nor see one.
func TestSuspendedNode(t *testing.T) {
	var slept atomic.Int64
	inBubble(t, func(c *supervisor.Config) { strict(c); c.Clock = sleptClock{c.Clock, &slept} }, func(r *rig) {
		l := r.launch("vm", watched)
		r.beat(l)
		vm := r.qemu(l.cgroup)
		slept.Store(int64(5 * time.Minute))
		r.ScanLauncher(l.Container.ID)
		r.after(watchdog / 2)
		r.sent(vm)
		r.beat(l)
		r.after(watchdog / 2)
		r.sent(vm)
		r.after(watchdog)
		r.sent(vm, "TERM")
	})
}
