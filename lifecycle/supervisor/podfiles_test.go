package supervisor_test

import (
	"slices"
	"testing"
	"time"

	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/lifecycle/poddir"
	"github.com/mooring-vm/mooring/lifecycle/registry"
	"github.com/mooring-vm/mooring/lifecycle/supervisor"
)

const watchdog = 20 * time.Second

// withAllStops lets the policy stop unattended VMs and VMs of hung launchers.
func withAllStops(c *supervisor.Config) { c.Terms.StopUnattended, c.Terms.StopHung = true, true }

func withWatchdog(l *registry.Launcher) { l.Watchdog = watchdog }

// heartbeat writes a heartbeat into the pod directory and notifies the supervisor.
func (r *rig) heartbeat(l launcher) {
	r.podDirs.Touch(l.Pod.UID, func(s *poddir.Touched) { s.Heartbeat = time.Now() })
	r.PodTouched(l.Pod.UID)
	r.advance(0)
}

func TestHeartbeat(t *testing.T) {
	inBubble(t, withAllStops, func(r *rig) {
		l := r.launch("vm", withWatchdog)
		r.heartbeat(l)
		vm := r.startQEMU(l.cgroup)
		for range 10 {
			r.advance(watchdog / 2)
			r.heartbeat(l)
		}
		r.expectPhase(l, agentapi.PhaseActive, agentapi.VMRunning)
		r.advance(watchdog + time.Second)
		r.expectEvent(agentapi.ReasonLauncherHung)
		r.expectSignals(vm, "TERM")
	})
}

func TestHeartbeatWithoutNotification(t *testing.T) {
	inBubble(t, withAllStops, func(r *rig) {
		l := r.launch("vm", withWatchdog)
		r.heartbeat(l)
		vm := r.startQEMU(l.cgroup)
		for range 10 {
			r.advance(watchdog / 2)
			r.podDirs.Touch(l.Pod.UID, func(s *poddir.Touched) { s.Heartbeat = time.Now() })
		}
		r.expectSignals(vm)
	})
}

func TestVMBeforeTheFirstHeartbeat(t *testing.T) {
	inBubble(t, withAllStops, func(r *rig) {
		l := r.launch("vm", withWatchdog)
		vm := r.startQEMU(l.cgroup)
		r.expectEvent(agentapi.ReasonVMUnattended)
		r.expectSignals(vm, "TERM")
		r.heartbeat(l)
		r.expectSignals(r.startQEMU(l.cgroup))
	})
}

// A pod created in the agent's absence has no directory and can give no heartbeat.
func TestWatchdogWithoutAPodDirectory(t *testing.T) {
	inBubble(t, withAllStops, func(r *rig) {
		l := r.launch("vm", func(l *registry.Launcher) {
			withWatchdog(l)
			l.Pod.UID = "no-directory"
		})
		vm := r.startQEMU(l.cgroup)
		r.advance(10 * watchdog)
		r.expectSignals(vm)
		if slices.Contains(r.recorder.Reasons(), agentapi.ReasonLauncherHung) {
			t.Error("Event LauncherHung for a pod without a directory")
		}
	})
}

func TestPodFilesOfAnEarlierContainer(t *testing.T) {
	inBubble(t, withAllStops, func(r *rig) {
		r.podDirs.Touch("uid-vm", func(s *poddir.Touched) {
			s.StopRequested, s.Heartbeat = true, time.Now()
		})
		l := r.launch("vm", withWatchdog)
		r.advance(0)
		r.expectPhase(l, agentapi.PhaseRegistered)
		vm := r.startQEMU(l.cgroup)
		r.expectEvent(agentapi.ReasonVMUnattended)
		r.expectSignals(vm, "TERM")
	})
}

// The agent reads no heartbeats in its absence.
func TestHeartbeatDeadlineAfterARestart(t *testing.T) {
	inBubble(t, withAllStops, func(r *rig) {
		l := r.launch("vm", withWatchdog)
		r.heartbeat(l)
		vm := r.startQEMU(l.cgroup)
		r.stop()
		r.advance(10 * watchdog)
		r.start()
		r.advance(watchdog / 2)
		r.expectSignals(vm)
		r.advance(watchdog)
		r.expectSignals(vm, "TERM")
	})
}

// The launcher may have given its first heartbeat in the agent's absence.
func TestVMStartsBeforeTheHeartbeatInAnAbsence(t *testing.T) {
	inBubble(t, withAllStops, func(r *rig) {
		l := r.launch("vm", withWatchdog)
		r.stop()
		r.advance(time.Second)
		vm := r.startProcess(l.cgroup)
		r.tracker.Exec(vm, "qemu-kvm")
		r.advance(time.Second)
		r.start()
		r.expectPhase(l, agentapi.PhaseActive, agentapi.VMRunning)
		r.expectSignals(vm)
	})
}

func TestLease(t *testing.T) {
	inBubble(t, nil, func(r *rig) {
		l := r.launch("vm", nil)
		vm := r.startQEMU(l.cgroup)
		if n, err := r.Lease(r.t.Context(), "vms", "vm", time.Minute, "migration"); n != 1 ||
			err != nil {
			t.Fatalf("Lease = %d, %v", n, err)
		}
		n, err := r.Lease(r.t.Context(), "vms", "other", time.Minute, "migration")
		if n != 0 || err != nil {
			t.Errorf("Lease of a pod without a launcher = %d, %v", n, err)
		}
		r.exit(l.process, "exit code 0")
		r.advance(time.Minute - time.Second)
		r.expectSignals(vm)
		r.advance(2 * time.Second)
		r.expectSignals(vm, "TERM")
	})
}
