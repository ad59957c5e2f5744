package supervisor_test

import (
	"errors"
	"strconv"
	"strings"
	"testing"

	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/lifecycle/host"
	"github.com/mooring-vm/mooring/lifecycle/poddir"
	"github.com/mooring-vm/mooring/lifecycle/registry"
	"github.com/mooring-vm/mooring/lifecycle/supervisor"
	"github.com/mooring-vm/mooring/lifecycle/tie"
)

func TestLauncherEnds(t *testing.T) {
	inBubble(t, nil, func(r *rig) {
		l := r.launch("vm", nil)
		r.expectPhase(l, agentapi.PhaseRegistered)
		vm := r.startQEMU(l.cgroup + "/child")
		r.expectPhase(l, agentapi.PhaseActive, agentapi.VMRunning)
		r.exit(l.process, "killed by SIGKILL")
		r.expectSignals(vm, "TERM")
		r.expectEvent(agentapi.ReasonOwnerGone)
		r.expectEvent(agentapi.ReasonVMGone)
		for _, e := range r.recorder.Events() {
			if strings.Contains(e.Message, strconv.Itoa(l.process.PID)) {
				t.Errorf("want equal texts for Kubernetes to count, without a pid: %s", e.Message)
			}
		}
		r.expectPhase(l, agentapi.PhaseDone)
		if r.HasPod(l.Pod.UID) || len(r.tracker.Registered()) != 0 {
			t.Error("the supervisor or the tracker still has the launcher")
		}
	})
}

func TestLauncherEndsWithoutTrackerEvent(t *testing.T) {
	inBubble(t, nil, func(r *rig) {
		l := r.launch("vm", nil)
		vm := r.startQEMU(l.cgroup)
		r.kernel.Exit(l.process.PID)
		r.advance(0)
		r.expectSignals(vm, "TERM")
	})
}

func TestStopRequest(t *testing.T) {
	inBubble(t, nil, func(r *rig) {
		l := r.launch("vm", nil)
		r.kernel.Ignores = func(_ int, signal string) bool { return signal == "TERM" }
		vm := r.startQEMU(l.cgroup)
		r.requestStop(l)
		r.expectPhase(l, agentapi.PhaseDraining, agentapi.VMStopping)
		r.expectSignals(vm)
		r.advance(gracePeriod)
		r.expectSignals(vm, "TERM")
		if !r.stopRequested(l) {
			t.Fatal("stop confirmed while the VM runs")
		}
		r.advance(termPeriod)
		r.expectSignals(vm, "TERM", "KILL")
		r.expectPhase(l, agentapi.PhaseDone)
		if r.stopRequested(l) {
			t.Error("stop not confirmed")
		}
		r.expectEvent(agentapi.ReasonStopConfirmed)
		r.exit(l.process, "exit code 0")
		if r.HasPod(l.Pod.UID) {
			t.Error("the tie outlives the launcher")
		}
	})
}

func TestNoStopConfirmationWithoutASnapshot(t *testing.T) {
	inBubble(t, nil, func(r *rig) {
		l := r.launch("vm", nil)
		vm := r.startQEMU(l.cgroup)
		r.requestStop(l)
		r.tracker.Fail(errors.New("no answer"))
		r.exit(vm, "exit code 0")
		r.advance(5 * gracePeriod)
		if !r.stopRequested(l) {
			t.Fatal("stop confirmed without a snapshot")
		}
		r.tracker.Fail(nil)
		r.advance(gracePeriod)
		if r.stopRequested(l) {
			t.Error("stop not confirmed")
		}
	})
}

// QEMU becomes a daemon by a fork, and the process that executed the emulator ends.
func TestDaemonOutlivesItsParent(t *testing.T) {
	inBubble(t, nil, func(r *rig) {
		l := r.launch("vm", nil)
		first := r.startQEMU(l.cgroup)
		daemon := r.startProcess(l.cgroup)
		r.tracker.Exec(daemon, "qemu-system-x86_64") // a fork has no event
		r.requestStop(l)
		r.exit(first, "exit code 0")
		r.expectPhase(l, agentapi.PhaseDraining, agentapi.VMStopping)
		r.exit(daemon, "exit code 0")
		r.expectPhase(l, agentapi.PhaseDone)
	})
}

func TestNoSignalToUnrelatedEmulators(t *testing.T) {
	inBubble(t, func(c *supervisor.Config) { c.Terms.StopUnattended = true }, func(r *rig) {
		l := r.launch("vm", nil)
		probe := r.startQEMU(l.cgroup, "-S", "-machine", "none,accel=kvm:tcg")
		unrelated := r.startQEMU("/system.slice/labeller.service")
		r.expectPhase(l, agentapi.PhaseRegistered)
		r.exit(l.process, "exit code 1")
		r.advance(gracePeriod)
		r.expectSignals(probe)
		r.expectSignals(unrelated)
	})
}

func TestRestart(t *testing.T) {
	for name, tt := range map[string]struct {
		away  func(r *rig, l launcher, vm host.Process)
		check func(r *rig, l launcher, vm host.Process)
	}{
		"no change": {
			func(*rig, launcher, host.Process) {},
			func(r *rig, l launcher, vm host.Process) {
				r.expectPhase(l, agentapi.PhaseActive, agentapi.VMRunning)
				r.expectSignals(vm)
			}},
		"launcher ends": {
			func(r *rig, l launcher, _ host.Process) { r.kernel.Exit(l.process.PID) },
			func(r *rig, _ launcher, vm host.Process) { r.expectSignals(vm, "TERM") }},
		"launcher's pid reused": {
			func(r *rig, l launcher, _ host.Process) {
				r.kernel.Exit(l.process.PID)
				r.kernel.Start(l.process.PID, "/elsewhere", host.Rlimit{})
			},
			func(r *rig, l launcher, vm host.Process) {
				r.expectSignals(vm, "TERM")
				r.expectSignals(l.process)
			}},
		"both end, VM's pid reused": {
			func(r *rig, l launcher, vm host.Process) {
				r.kernel.Exit(l.process.PID)
				r.kernel.Exit(vm.PID)
				r.kernel.Start(vm.PID, l.cgroup, host.Rlimit{})
			},
			func(r *rig, _ launcher, vm host.Process) { r.expectSignals(vm) }},
		"stop request": {
			func(r *rig, l launcher, _ host.Process) {
				r.podDirs.Touch(l.Pod.UID, func(s *poddir.Touched) { s.StopRequested = true })
			},
			func(r *rig, l launcher, vm host.Process) {
				r.expectPhase(l, agentapi.PhaseDraining, agentapi.VMStopping)
				r.advance(gracePeriod)
				r.expectSignals(vm, "TERM")
			}},
		"another VM starts": {
			func(r *rig, l launcher, _ host.Process) {
				r.tracker.Exec(r.startProcess(l.cgroup), "qemu-kvm")
			},
			func(r *rig, l launcher, _ host.Process) {
				r.expectPhase(l, agentapi.PhaseActive, agentapi.VMRunning, agentapi.VMRunning)
			}},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, nil, func(r *rig) {
				l := r.launch("vm", nil)
				vm := r.startQEMU(l.cgroup)
				r.stop()
				tt.away(r, l, vm)
				r.start()
				tt.check(r, l, vm)
			})
		})
	}
}

func TestNodeLevelDomain(t *testing.T) {
	inBubble(t, nil, func(r *rig) {
		l := r.launch("vm", func(l *registry.Launcher) { l.Domain = "one" })
		other := r.launch("late", func(l *registry.Launcher) {
			l.Domain = strings.ToUpper(domainUUID)
		})
		scope := `/machine.slice/machine-qemu\x2d1\x2done.scope`
		vm := r.startProcess(scope + "/libvirt/emulator")
		helper := r.startProcess(scope + "/libvirt/emulator")
		shutdowns := 0
		r.domains.OnShutdown = func(tie.Domain) error { shutdowns++; return nil }
		r.kernel.SetArguments(vm.PID, "qemu-system-x86_64", "-uuid", domainUUID)
		r.domains.Run(tie.Domain{Name: "one", UUID: domainUUID, PID: vm.PID})
		r.kernel.Ignores = func(_ int, signal string) bool { return signal == "TERM" }
		r.ProcessEvent(r.tracker.Exec(vm, "qemu-system-x86_64"))
		r.advance(0)
		r.expectPhase(l, agentapi.PhaseActive, agentapi.VMRunning)
		r.expectPhase(other, agentapi.PhaseRegistered)
		r.expectEvent(agentapi.ReasonDomainClaimed)
		r.exit(l.process, "killed by SIGKILL")
		r.expectPhase(l, agentapi.PhaseDraining, agentapi.VMStopping)
		r.expectSignals(vm)
		r.advance(gracePeriod)
		r.expectSignals(vm, "TERM")
		r.advance(termPeriod)
		if shutdowns != 3 {
			t.Errorf("%d shutdown requests to the guest, want 3: one each ten seconds", shutdowns)
		}
		for _, p := range []host.Process{vm, helper} {
			if _, err := r.kernel.Identify(p.PID); !errors.Is(err, host.ErrGone) {
				t.Errorf("process %d of the domain has not ended: %v", p.PID, err)
			}
		}
	})
}
