package supervisor_test

import (
	"errors"
	"testing"

	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/lifecycle/host"
	"github.com/mooring-vm/mooring/lifecycle/poddir"
	"github.com/mooring-vm/mooring/lifecycle/registry"
	"github.com/mooring-vm/mooring/lifecycle/supervisor"
	"github.com/mooring-vm/mooring/lifecycle/tie"
)

func TestOwnerGone(t *testing.T) {
	inBubble(t, nil, func(r *rig) {
		l := r.launch("vm", nil)
		r.is(l, agentapi.PhaseRegistered)
		vm := r.qemu(l.cgroup + "/child")
		r.is(l, agentapi.PhaseActive, agentapi.VMRunning)
		r.exit(l.owner, "killed by SIGKILL")
		r.sent(vm, "TERM")
		r.told(agentapi.ReasonOwnerGone)
		r.told(agentapi.ReasonVMGone)
		r.is(l, agentapi.PhaseDone)
		if r.HasPod(l.Pod.UID) || len(r.tracker.Registered()) != 0 {
			t.Error("something is left of the launcher")
		}
	})
}

// TestOwnerGoneByPidfd: the tracker says nothing.
func TestOwnerGoneByPidfd(t *testing.T) {
	inBubble(t, nil, func(r *rig) {
		l := r.launch("vm", nil)
		vm := r.qemu(l.cgroup)
		r.kernel.Exit(l.owner.PID)
		r.after(0)
		r.sent(vm, "TERM")
	})
}

func TestStopAskedByThePod(t *testing.T) {
	inBubble(t, nil, func(r *rig) {
		l := r.launch("vm", nil)
		r.kernel.Ignores = func(_ int, signal string) bool { return signal == "TERM" }
		vm := r.qemu(l.cgroup)
		r.ask(l)
		r.is(l, agentapi.PhaseDraining, agentapi.VMStopping)
		r.sent(vm)
		r.after(grace)
		r.sent(vm, "TERM")
		if !r.stopAsked(l) {
			t.Fatal("the stop is confirmed although the VM runs")
		}
		r.after(term)
		r.sent(vm, "TERM", "KILL")
		r.is(l, agentapi.PhaseDone)
		if r.stopAsked(l) {
			t.Error("the stop is not confirmed")
		}
		r.told(agentapi.ReasonStopConfirmed)
		r.exit(l.owner, "exit code 0")
		if r.HasPod(l.Pod.UID) {
			t.Error("the tie outlives the launcher")
		}
	})
}

func TestStopIsConfirmedOnlyWhenItCanBeSeen(t *testing.T) {
	inBubble(t, nil, func(r *rig) {
		l := r.launch("vm", nil)
		vm := r.qemu(l.cgroup)
		r.ask(l)
		r.tracker.Fail(errors.New("no answer"))
		r.exit(vm, "exit code 0")
		r.after(5 * grace)
		if !r.stopAsked(l) {
			t.Fatal("no answer was taken for a proof")
		}
		r.tracker.Fail(nil)
		r.after(grace)
		if r.stopAsked(l) {
			t.Error("the stop is not confirmed")
		}
	})
}

// TestForkOfTheEmulator: a daemon is what is left when the process that has executed
// the emulator ends.
func TestForkOfTheEmulator(t *testing.T) {
	inBubble(t, nil, func(r *rig) {
		l := r.launch("vm", nil)
		first := r.qemu(l.cgroup)
		daemon := r.process(l.cgroup)
		r.tracker.Exec(daemon, "qemu-system-x86_64") // nobody is told of a fork
		r.ask(l)
		r.exit(first, "exit code 0")
		r.is(l, agentapi.PhaseDraining, agentapi.VMStopping)
		r.exit(daemon, "exit code 0")
		r.is(l, agentapi.PhaseDone)
	})
}

func TestStrangersAreLeftAlone(t *testing.T) {
	inBubble(t, func(c *supervisor.Config) { c.Terms.StopUnattended = true }, func(r *rig) {
		l := r.launch("vm", nil)
		probe := r.qemu(l.cgroup, "-S", "-machine", "none,accel=kvm:tcg")
		stranger := r.qemu("/system.slice/labeller.service")
		r.is(l, agentapi.PhaseRegistered)
		r.exit(l.owner, "exit code 1")
		r.after(grace)
		r.sent(probe)
		r.sent(stranger)
	})
}

func TestRestart(t *testing.T) {
	for name, tt := range map[string]struct {
		away  func(r *rig, l launcher, vm host.Process)
		check func(r *rig, l launcher, vm host.Process)
	}{
		"nothing happens": {
			func(*rig, launcher, host.Process) {},
			func(r *rig, l launcher, vm host.Process) {
				r.is(l, agentapi.PhaseActive, agentapi.VMRunning)
				r.sent(vm)
			}},
		"the owner ends": {
			func(r *rig, l launcher, _ host.Process) { r.kernel.Exit(l.owner.PID) },
			func(r *rig, _ launcher, vm host.Process) { r.sent(vm, "TERM") }},
		"the owner's pid is another's": {
			func(r *rig, l launcher, _ host.Process) {
				r.kernel.Exit(l.owner.PID)
				r.kernel.Start(l.owner.PID, "/elsewhere", host.Rlimit{})
			},
			func(r *rig, l launcher, vm host.Process) { r.sent(vm, "TERM"); r.sent(l.owner) }},
		"both end, and the VM's pid is another's": {
			func(r *rig, l launcher, vm host.Process) {
				r.kernel.Exit(l.owner.PID)
				r.kernel.Exit(vm.PID)
				r.kernel.Start(vm.PID, l.cgroup, host.Rlimit{})
			},
			func(r *rig, _ launcher, vm host.Process) { r.sent(vm) }},
		"the pod asks": {
			func(r *rig, l launcher, _ host.Process) {
				r.signs.Touch(l.Pod.UID, func(s *poddir.Touched) { s.StopRequested = true })
			},
			func(r *rig, l launcher, vm host.Process) {
				r.is(l, agentapi.PhaseDraining, agentapi.VMStopping)
				r.after(grace)
				r.sent(vm, "TERM")
			}},
		"another VM starts": {
			func(r *rig, l launcher, _ host.Process) {
				r.tracker.Exec(r.process(l.cgroup), "qemu-kvm")
			},
			func(r *rig, l launcher, _ host.Process) {
				r.is(l, agentapi.PhaseActive, agentapi.VMRunning, agentapi.VMRunning)
			}},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, nil, func(r *rig) {
				l := r.launch("vm", nil)
				vm := r.qemu(l.cgroup)
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
		other := r.launch("late", func(l *registry.Launcher) { l.Domain = "7B1F0F6E-3F0C-4B0E-9A53-0D9C3C1A7F11" })
		scope := `/machine.slice/machine-qemu\x2d1\x2done.scope`
		vm := r.process(scope + "/libvirt/emulator")
		helper := r.process(scope + "/libvirt/emulator")
		asked := 0
		r.domains.OnShutdown = func(tie.Domain) error { asked++; return nil }
		r.kernel.SetArguments(vm.PID, "qemu-system-x86_64", "-uuid", "7b1f0f6e-3f0c-4b0e-9a53-0d9c3c1a7f11")
		r.domains.Run(tie.Domain{Name: "one", UUID: "7b1f0f6e-3f0c-4b0e-9a53-0d9c3c1a7f11", PID: vm.PID})
		r.kernel.Ignores = func(_ int, signal string) bool { return signal == "TERM" }
		r.ProcessEvent(r.tracker.Exec(vm, "qemu-system-x86_64"))
		r.after(0)
		r.is(l, agentapi.PhaseActive, agentapi.VMRunning)
		r.is(other, agentapi.PhaseRegistered)
		r.told(agentapi.ReasonDomainClaimed)
		r.exit(l.owner, "killed by SIGKILL")
		r.is(l, agentapi.PhaseDraining, agentapi.VMStopping)
		r.sent(vm)
		r.after(grace)
		r.sent(vm, "TERM")
		r.after(term)
		if asked != 1 {
			t.Errorf("the guest was asked %d times to shut down", asked)
		}
		for _, p := range []host.Process{vm, helper} {
			if _, err := r.kernel.Identify(p.PID); !errors.Is(err, host.ErrGone) {
				t.Errorf("process %d of the domain is left: %v", p.PID, err)
			}
		}
	})
}
