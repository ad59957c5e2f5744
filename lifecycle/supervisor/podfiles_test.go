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

// strict has everything stopped that the policy can have stopped.
func strict(c *supervisor.Config) { c.Terms.StopUnattended, c.Terms.StopHung = true, true }

func watched(l *registry.Launcher) { l.Watchdog = watchdog }

// beat has the pod give a sign of life.
func (r *rig) beat(l launcher) {
	r.signs.Touch(l.Pod.UID, func(s *poddir.Touched) { s.Heartbeat = time.Now() })
	r.PodTouched(l.Pod.UID)
	r.after(0)
}

func TestHeartbeat(t *testing.T) {
	inBubble(t, strict, func(r *rig) {
		l := r.launch("vm", watched)
		r.beat(l)
		vm := r.qemu(l.cgroup)
		for range 10 {
			r.after(watchdog / 2)
			r.beat(l)
		}
		r.is(l, agentapi.PhaseActive, agentapi.VMRunning)
		r.after(watchdog + time.Second)
		r.told(agentapi.ReasonLauncherHung)
		r.sent(vm, "TERM")
	})
}

// TestHeartbeatThatNobodyTellsOf: the hint was lost.
func TestHeartbeatThatNobodyTellsOf(t *testing.T) {
	inBubble(t, strict, func(r *rig) {
		l := r.launch("vm", watched)
		r.beat(l)
		vm := r.qemu(l.cgroup)
		for range 10 {
			r.after(watchdog / 2)
			r.signs.Touch(l.Pod.UID, func(s *poddir.Touched) { s.Heartbeat = time.Now() })
		}
		r.sent(vm)
	})
}

func TestVMBeforeTheFirstHeartbeat(t *testing.T) {
	inBubble(t, strict, func(r *rig) {
		l := r.launch("vm", watched)
		vm := r.qemu(l.cgroup)
		r.told(agentapi.ReasonVMUnattended)
		r.sent(vm, "TERM")
		r.beat(l)
		r.sent(r.qemu(l.cgroup))
	})
}

// TestPodWithoutADirectory: it was created while nobody was here, and can give no sign.
func TestPodWithoutADirectory(t *testing.T) {
	inBubble(t, strict, func(r *rig) {
		l := r.launch("vm", func(l *registry.Launcher) { watched(l); l.Pod.UID = "no-directory" })
		vm := r.qemu(l.cgroup)
		r.after(10 * watchdog)
		r.sent(vm)
		if slices.Contains(r.recorder.Reasons(), agentapi.ReasonLauncherHung) {
			t.Error("it is said to hang")
		}
	})
}

// TestSignsOfAnEarlierContainer say nothing about the one that comes after it.
func TestSignsOfAnEarlierContainer(t *testing.T) {
	inBubble(t, strict, func(r *rig) {
		r.signs.Touch("uid-vm", func(s *poddir.Touched) { s.StopRequested, s.Heartbeat = true, time.Now() })
		l := r.launch("vm", watched)
		r.after(0)
		r.is(l, agentapi.PhaseRegistered)
		vm := r.qemu(l.cgroup)
		r.told(agentapi.ReasonVMUnattended)
		r.sent(vm, "TERM")
	})
}

// TestRestartDoesNotBlameTheLauncher: nobody looked for its heartbeat meanwhile.
func TestRestartDoesNotBlameTheLauncher(t *testing.T) {
	inBubble(t, strict, func(r *rig) {
		l := r.launch("vm", watched)
		r.beat(l)
		vm := r.qemu(l.cgroup)
		r.stop()
		r.after(10 * watchdog)
		r.start()
		r.after(watchdog / 2)
		r.sent(vm)
		r.after(watchdog)
		r.sent(vm, "TERM")
	})
}

// TestVMOfWhichNobodySawTheStart: the launcher may have given signs then.
func TestVMOfWhichNobodySawTheStart(t *testing.T) {
	inBubble(t, strict, func(r *rig) {
		l := r.launch("vm", watched)
		r.stop()
		r.after(time.Second)
		vm := r.process(l.cgroup)
		r.tracker.Exec(vm, "qemu-kvm")
		r.after(time.Second)
		r.start()
		r.is(l, agentapi.PhaseActive, agentapi.VMRunning)
		r.sent(vm)
	})
}

func TestLease(t *testing.T) {
	inBubble(t, nil, func(r *rig) {
		l := r.launch("vm", nil)
		vm := r.qemu(l.cgroup)
		if n, err := r.Lease(r.t.Context(), "vms", "vm", time.Minute, "migration"); n != 1 || err != nil {
			t.Fatalf("Lease = %d, %v", n, err)
		}
		if n, err := r.Lease(r.t.Context(), "vms", "other", time.Minute, "migration"); n != 0 || err != nil {
			t.Errorf("Lease for a pod that has no launcher = %d, %v", n, err)
		}
		r.exit(l.owner, "exit code 0")
		r.after(time.Minute - time.Second)
		r.sent(vm)
		r.after(2 * time.Second)
		r.sent(vm, "TERM")
	})
}
