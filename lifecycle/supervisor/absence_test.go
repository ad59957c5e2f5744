package supervisor_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/lifecycle/host"
	"github.com/mooring-vm/mooring/lifecycle/registry"
	"github.com/mooring-vm/mooring/lifecycle/supervisor"
	"github.com/mooring-vm/mooring/lifecycle/tie"
)

// inSuspendableBubble runs a test on a node that can be suspended.
func inSuspendableBubble(
	t *testing.T, change func(*supervisor.Config), test func(r *rig, suspend func(time.Duration)),
) {
	t.Helper()
	var suspended atomic.Int64
	inBubble(t, func(c *supervisor.Config) {
		c.Clock = suspendableClock{c.Clock, &suspended}
		if change != nil {
			change(c)
		}
	}, func(r *rig) {
		r.kernel.Clock = r.config.Clock
		test(r, func(d time.Duration) { suspended.Add(int64(d)) })
	})
}

// The agent has observed the end of the launcher before its absence. It needs no list of the
// runtime to forget the launcher.
func TestEndBeforeAnAbsence(t *testing.T) {
	inSuspendableBubble(t, nil, func(r *rig, suspend func(time.Duration)) {
		l := r.launch("vm", withDomain)
		r.exit(l.process, "SIGKILL")
		suspend(time.Minute)
		r.advance(time.Minute)
		if r.HasPod(l.Pod.UID) {
			t.Error("the tie was kept")
		}
	})
}

// The agent has not observed the end. Before the runtime has listed its launchers, another pod may
// have the domain.
func TestEndInAnAbsenceWaitsForTheRuntime(t *testing.T) {
	inSuspendableBubble(t, nil, func(r *rig, suspend func(time.Duration)) {
		l := r.launch("vm", withDomain)
		r.kernel.Exit(l.process.PID)
		suspend(time.Minute)
		r.expectKeptUntilListed(t, l)
	})
}

// After an absence the store may have unknown ties, and ties without a launcher process.
func TestTiesOfTheFenceWithoutALauncherProcess(t *testing.T) {
	inSuspendableBubble(t, nil, func(r *rig, suspend func(time.Duration)) {
		l := r.launch("vm", nil)
		vm := r.startQEMU(l.cgroup)
		created := r.registerCreated("created")
		for id, process := range map[string]*host.Process{
			"unknown": {PID: 7, StartTime: 1}, "id-created": {PID: 7, StartTime: 1},
			l.Container.ID: nil,
		} {
			record := tie.Tie{LauncherGone: "its first process has ended", LauncherProcess: process}
			record.Launcher.Container.ID = id
			if err := r.store.Save(record); err != nil {
				t.Fatal(err)
			}
		}
		suspend(time.Minute)
		r.advance(time.Second)
		r.expectPhase(l, agentapi.PhaseActive, agentapi.VMRunning)
		r.expectSignals(vm)
		if !r.HasPod(created.Pod.UID) {
			t.Error("the created launcher was dropped")
		}
	})
}

// A stall is an excuse if it takes a quarter of the watchdog, and at least two seconds. The agent
// is stopped for a moment again and again.
func TestStallsExcuseNoHang(t *testing.T) {
	for name, c := range map[string]struct{ watchdog, stall, period time.Duration }{
		"long watchdog":  {40 * time.Second, 5 * time.Second, 10 * time.Second},
		"short watchdog": {3 * time.Second, 0, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			inSuspendableBubble(t, withAllStops, func(r *rig, suspend func(time.Duration)) {
				l := r.launch("vm", func(l *registry.Launcher) { l.Watchdog = c.watchdog })
				r.heartbeat(l)
				vm := r.startQEMU(l.cgroup)
				for range 5 * c.watchdog / c.period {
					suspend(c.stall)
					r.advance(c.period)
				}
				r.expectEvent(agentapi.ReasonLauncherHung)
				r.expectSignals(vm, "TERM")
			})
		})
	}
}

// The stop of a live launcher does not wait for the runtime's list after a restart.
func TestStopAfterARestart(t *testing.T) {
	inBubble(t, nil, func(r *rig) {
		l := r.launch("vm", withDomain)
		r.stop()
		r.start()
		r.requestStop(l)
		r.advance(time.Second)
		if r.stopRequested(l) {
			t.Errorf("stop not confirmed: %q", r.waits(l))
		}
	})
}

// The fence has no list of the runtime.
func TestFenceForgetsALauncher(t *testing.T) {
	inBubble(t, nil, func(r *rig) {
		l := r.launch("vm", withDomain)
		r.exit(l.process, "SIGKILL")
		r.stop()
		r.config.Terms.ProofOnly = true
		r.start()
		r.advance(time.Minute)
		if r.HasPod(l.Pod.UID) {
			t.Error("the fence keeps the tie of an ended launcher")
		}
	})
}

// The agent cannot read the launcher process after an absence. This proves no end.
func TestUnreadableLauncherAfterAnAbsence(t *testing.T) {
	f := &failingIdentify{}
	change := func(c *supervisor.Config) { f.Processes, c.Processes = c.Processes, f }
	inSuspendableBubble(t, change, func(r *rig, suspend func(time.Duration)) {
		l := r.launch("vm", nil)
		vm := r.startQEMU(l.cgroup)
		f.fail.Store(true)
		suspend(time.Minute)
		r.advance(time.Minute)
		r.expectSignals(vm)
		r.expectPhase(l, agentapi.PhaseActive, agentapi.VMRunning)
	})
}
