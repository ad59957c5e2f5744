package supervisor_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mooring-vm/mooring/lifecycle/host"
	"github.com/mooring-vm/mooring/lifecycle/poddir"
	"github.com/mooring-vm/mooring/lifecycle/registry"
	"github.com/mooring-vm/mooring/lifecycle/supervisor"
	"github.com/mooring-vm/mooring/lifecycle/tie"
)

// hookedDirs calls a function in the next read of a pod directory.
type hookedDirs struct {
	supervisor.PodDirs
	hook func()
}

func (h *hookedDirs) Touched(uid string) (poddir.Touched, error) {
	if hook := h.hook; hook != nil {
		h.hook = nil
		hook()
	}
	return h.PodDirs.Touched(uid)
}

// inStalledTurn runs a test with a launcher and its VM process. stall queues work for a turn of the
// supervisor. The node freezes in this turn, before the work.
func inStalledTurn(
	t *testing.T, test func(r *rig, l launcher, vm host.Process, stall func(work func())),
) {
	var suspended atomic.Int64
	h := &hookedDirs{}
	change := func(c *supervisor.Config) {
		withAllStops(c)
		c.Clock = suspendableClock{c.Clock, &suspended}
		h.PodDirs, c.PodDirs = c.PodDirs, h
	}
	inBubble(t, change, func(r *rig) {
		r.kernel.Clock = r.config.Clock
		l := r.launch("vm", func(l *registry.Launcher) { l.Watchdog = 5 * time.Second })
		r.heartbeat(l)
		test(r, l, r.startQEMU(l.cgroup), func(work func()) {
			h.hook = func() { // in the turn before
				h.hook = func() { suspended.Add(int64(freezePeriod)) }
				r.PodTouched(l.Pod.UID)
				work()
			}
			r.PodTouched(l.Pod.UID)
			r.advance(time.Second)
			synctest.Wait()
			if h.hook != nil || suspended.Load() == 0 {
				t.Fatal("the node did not freeze")
			}
		})
	})
}

// A lease ends during the stall, and its renewal waits behind the work that stalls.
func TestLeaseIsRenewedInAStalledTurn(t *testing.T) {
	inStalledTurn(t, func(r *rig, l launcher, vm host.Process, stall func(work func())) {
		r.leasePod(l, 10*time.Second, 1)
		r.requestStop(l)
		r.advance(4 * time.Second)
		r.heartbeat(l)
		stall(func() {
			go func() {
				if _, err := r.LeasePod(context.Background(), l.Pod.UID, 10*time.Minute,
					"migration"); err != nil {
					t.Error(err)
				}
			}()
			time.Sleep(time.Millisecond)
		})
		r.advance(2 * time.Minute)
		r.expectSignals(vm)
	})
}

// A stop handler returns while the work stalls, and the wait for it ends during the stall.
func TestStopHandlerReturnsInAStalledTurn(t *testing.T) {
	inStalledTurn(t, func(r *rig, l launcher, vm host.Process, stall func(work func())) {
		r.connected(l, true)
		r.exit(l.process, "SIGKILL")
		r.connected(l, false)
		r.advance(time.Second)
		stall(func() { r.SetStopHandler(l.Pod.UID, true) })
		r.advance(10 * time.Second)
		r.expectSignals(vm)
	})
}

// hookedTracker calls a function before the next snapshot.
type hookedTracker struct {
	supervisor.Tracker
	before func()
}

func (h *hookedTracker) Snapshot() ([]supervisor.Tracked, bool, error) {
	if before := h.before; before != nil {
		h.before = nil
		before()
	}
	return h.Tracker.Snapshot()
}

// libvirtd descends from a launcher that has ended. It writes a record and starts the emulator of
// another launcher between a scan's list of records and its snapshot.
func TestRecordIsWrittenDuringAScan(t *testing.T) {
	for name, broken := range map[string][]tie.Domain{
		"no broken record": nil, "one broken record": {{Name: "two"}},
	} {
		t.Run(name, func(t *testing.T) {
			h := &hookedTracker{}
			change := func(c *supervisor.Config) { h.Tracker, c.Tracker = c.Tracker, h }
			inBubble(t, change, func(r *rig) {
				ancestor, declarer := r.launch("ancestor", nil), r.launch("declarer", withDomain)
				r.inheritGroup(ancestor, "/system.slice/libvirtd")
				r.domains.Break(broken...)
				r.exit(ancestor.process, "SIGKILL")
				r.advance(time.Minute)
				vm := r.inheritGroup(ancestor, "/machine/x")
				var started supervisor.ProcessEvent
				h.before = func() {
					r.domains.Run(tie.Domain{Name: "one", UUID: domainUUID, PID: vm.PID})
					r.kernel.SetArguments(vm.PID, "qemu-kvm", "-name", "one", "-uuid", domainUUID)
					started = r.tracker.Exec(vm, "qemu-kvm")
				}
				r.DomainsChanged()
				synctest.Wait()
				r.ProcessEvent(started)
				r.DomainsChanged()
				r.advance(2 * time.Minute)
				r.expectSignals(vm)
				r.expectVMs(declarer, vm)
			})
		})
	}
}
