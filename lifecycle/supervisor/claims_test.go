package supervisor_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/lifecycle/registry"
	"github.com/mooring-vm/mooring/lifecycle/supervisor"
	"github.com/mooring-vm/mooring/lifecycle/tie"
)

// The tests of this file are about several launchers that declare one domain.

func requiresOwner(c *supervisor.Config) { c.RequiresOwner = func(string) bool { return true } }

// registerCreated registers a launcher without a first process.
func (r *rig) registerCreated(name string) registry.Launcher {
	r.t.Helper()
	l := registry.Launcher{SandboxID: "sandbox-" + name, Domain: "one"}
	l.Pod = agentapi.PodRef{Namespace: "vms", Name: name, UID: "uid-" + name}
	l.Container = agentapi.ContainerRef{Name: "compute", ID: "id-" + name}
	l.State = agentapi.StateCreated
	r.config.Registry.Put(l)
	if err := r.Register(l, ""); err != nil {
		r.t.Fatal(err)
	}
	r.advance(0)
	return l
}

// The earliest live launcher has the domain, and each of the others one Event.
func TestEarliestLauncherHasTheDomain(t *testing.T) {
	inBubble(t, requiresOwner, func(r *rig) {
		r.Reconciled()
		r.registerCreated("created")
		first := r.launch("first", withDomain)
		var later []launcher
		for _, name := range strings.Split("abcdefgh", "") {
			later = append(later, r.launch(name, withDomain))
		}
		vm := r.startDomain("/machine/x")
		r.DomainsChanged()
		r.advance(time.Minute)
		r.expectVMs(first, vm)
		for _, l := range later {
			r.expectVMs(l)
			r.expectNotes(1, agentapi.ReasonDomainClaimed, l.Pod, "pod vms/first")
		}
		if slices.Contains(r.recorder.Reasons(), agentapi.ReasonVMUnattended) {
			t.Error("reported as unattended although a launcher has it")
		}
	})
}

// The domain runs again, and the launcher without it gets no second Event.
func TestClaimIsReportedOnce(t *testing.T) {
	inBubble(t, nil, func(r *rig) {
		first, later := r.launch("first", withDomain), r.launch("later", withDomain)
		for range 3 {
			vm := r.startDomain("/machine/x")
			r.expectVMs(first, vm)
			r.exit(vm, "exit code 0")
			r.domains.Forget(domainUUID)
		}
		r.expectNotes(1, agentapi.ReasonDomainClaimed, later.Pod, "pod vms/first")
	})
}

// A launcher that has never started owns no domain.
func TestDomainOfALauncherThatNeverStarted(t *testing.T) {
	inBubble(t, withAllStops, func(r *rig) {
		cgroup := "/kubepods/pod-never/id-never"
		r.kernel.Write(cgroup, "cgroup.type", "domain\n")
		l := r.registerCreated("never")
		if err := r.Register(l, cgroup); err != nil {
			t.Fatal(err)
		}
		r.advance(0)
		r.kernel.Rmdir(cgroup)
		r.ScanLauncher(l.Container.ID)
		r.advance(time.Second)
		r.config.Registry.RemoveContainer(l.Container.ID)
		vm := r.startDomain("/machine/x")
		r.advance(gracePeriod + 2*termPeriod)
		r.expectSignals(vm)
	})
}

// A launcher is a zombie when the supervisor hears of its start. Its VM, started in its life, ends.
func TestDomainOfAZombieLauncher(t *testing.T) {
	inBubble(t, nil, func(r *rig) {
		cgroup := "/kubepods/pod-zombie/id-zombie"
		r.kernel.Write(cgroup, "cgroup.type", "domain\n")
		l := r.registerCreated("zombie")
		if err := r.Register(l, cgroup); err != nil {
			t.Fatal(err)
		}
		process := r.startProcess(cgroup)
		vm := r.forkDomain()
		r.kernel.ExitUnreaped(process.PID)
		r.config.Registry.SetState(l.Container.ID, agentapi.StateRunning, process.PID)
		l, _ = r.config.Registry.Find(l.Container.ID)
		r.LauncherStarted(l)
		r.advance(0)
		r.recordDomain(vm)
		r.executeEmulator(vm)
		r.advance(gracePeriod + 2*termPeriod)
		r.expectSignals(vm, "TERM")
	})
}

// Two launchers of the domain end, and the runtime still shows both as running. libvirt records the
// domain after that. No living launcher has the VM, so it ends, and the earlier launcher has it.
func TestDomainOfTwoEndedLaunchers(t *testing.T) {
	inBubble(t, nil, func(r *rig) {
		first, later := r.launch("first", withDomain), r.launch("later", withDomain)
		vm := r.forkDomain()
		r.exit(first.process, "SIGKILL")
		r.exit(later.process, "SIGKILL")
		r.recordDomain(vm)
		r.executeEmulator(vm)
		r.expectNotes(1, agentapi.ReasonVMShutdown, first.Pod, "domain one")
		r.expectNotes(0, agentapi.ReasonVMShutdown, later.Pod, "domain one")
		r.advance(gracePeriod + 2*termPeriod)
		r.expectSignals(vm, "TERM")
	})
}

// Several launchers of the domain have ended before its start. The last one counts, also while the
// runtime still shows them as running.
func TestDomainAfterSeveralLaunchers(t *testing.T) {
	for _, shown := range []bool{false, true} {
		for _, kept := range []bool{false, true} { // their ties
			inBubble(t, withAllStops, func(r *rig) { startAfterSeveral(r, shown, kept) })
		}
	}
}

func startAfterSeveral(r *rig, shown, kept bool) {
	r.Reconciled()
	var ended []launcher
	for _, name := range strings.Split("abcdef", "") {
		l := r.launch(name, withDomain)
		r.exit(l.process, "SIGKILL")
		if !shown {
			r.config.Registry.RemoveContainer(l.Container.ID)
			r.config.Registry.RemoveSandbox(l.SandboxID)
		}
		ended = append(ended, l)
		r.advance(time.Second)
	}
	if !kept {
		r.advance(time.Minute)
	}
	vm := r.startDomain("/machine/x")
	r.advance(time.Second)
	for _, l := range ended[:5] {
		r.expectNotes(0, agentapi.ReasonVMUnattended, l.Pod, "domain one")
	}
	r.expectNotes(1, agentapi.ReasonVMUnattended, ended[5].Pod, "domain one")
	r.advance(gracePeriod + termPeriod)
	r.expectSignals(vm, "TERM")
}

// An Event about a late VM says what the agent knows and does.
func TestReportOfALateVM(t *testing.T) {
	for text, c := range map[string]struct{ stops, unseen bool }{
		"domain one (qemu-system-x86_64) is unattended: it started after its launcher had ended, " +
			"and the agent leaves it alone": {},
		"after its launcher had ended, and the agent stops it":            {stops: true},
		"after its launcher was last seen alive, and the agent leaves it": {unseen: true},
		"after its launcher was last seen alive, and the agent stops it":  {stops: true, unseen: true},
	} {
		change := func(c2 *supervisor.Config) { c2.Terms.StopUnattended = c.stops }
		inBubble(t, change, func(r *rig) {
			l := r.launch("vm", withDomain)
			if c.unseen {
				r.stop()
				r.kernel.Exit(l.process.PID)
				r.advance(time.Minute)
				r.start()
			} else {
				r.exit(l.process, "SIGKILL")
			}
			vm := r.startDomain("/machine/x")
			r.Reconciled()
			r.advance(time.Minute)
			r.expectNotes(1, agentapi.ReasonVMUnattended, l.Pod, text)
			r.expectUnattendedEvent(vm)
			for _, e := range r.recorder.Events() {
				if e.Reason == agentapi.ReasonVMUnattended && e.Type != agentapi.Warning {
					t.Errorf("%+v: want a warning", e)
				}
			}
		})
	}
}

// The tracker learns that a node-level VM belongs to the launcher, for its later children.
func TestNodeLevelVMIsBound(t *testing.T) {
	inBubble(t, nil, func(r *rig) {
		l := r.launch("vm", withDomain)
		vm := r.startDomain("/machine/x")
		all, _, err := r.tracker.Snapshot()
		bound := slices.ContainsFunc(all, func(p supervisor.Tracked) bool {
			return p.Same(vm) && p.Bound && p.Group == r.group(l)
		})
		if err != nil || !bound {
			t.Errorf("tracked processes %+v, %v, want the VM bound", all, err)
		}
	})
}

// The policy requires no owner of this domain.
func TestDomainWithoutARequiredOwner(t *testing.T) {
	change := func(c *supervisor.Config) { c.RequiresOwner = func(string) bool { return false } }
	inBubble(t, change, func(r *rig) {
		r.Reconciled()
		r.startDomain("/machine/x")
		r.advance(time.Minute)
		if slices.Contains(r.recorder.Reasons(), agentapi.ReasonVMUnattended) {
			t.Error("reported as unattended")
		}
	})
}

// libvirtd descends from a launcher, and its VM belongs to that launcher without a claim.
func TestInheritedDomainIsNotUnattended(t *testing.T) {
	inBubble(t, requiresOwner, func(r *rig) {
		r.Reconciled()
		l := r.launch("vm", nil)
		vm := r.inheritGroup(l, "/machine/x")
		r.recordDomain(vm)
		r.executeInherited(vm)
		r.expectVMs(l, vm)
		if slices.Contains(r.recorder.Reasons(), agentapi.ReasonVMUnattended) {
			t.Error("reported as unattended")
		}
	})
}

// The domain of an orphan runs in two processes for a moment: the first does not end. Both get
// their signals.
func TestTwoProcessesOfAnOrphan(t *testing.T) {
	inBubble(t, nil, func(r *rig) {
		r.Reconciled()
		r.kernel.Ignores = func(int, string) bool { return true }
		first := r.startOwned(goneOwner)
		r.advance(gracePeriod)
		r.domains.Forget(domainUUID)
		second := r.startOwned(goneOwner)
		r.advance(termPeriod + time.Second)
		r.expectSignals(first, "TERM", "KILL")
		r.kernel.Exit(first.PID)
		r.advance(2*gracePeriod + termPeriod)
		if signals := r.kernel.Signals(second.PID); len(signals) == 0 {
			t.Error("the second process got no signal")
		}
	})
}

// The agent has no file descriptor for the handle of an orphan. Repeated scans find the orphan again,
// and the tie is dropped after its end.
func TestOrphanWithoutAHandle(t *testing.T) {
	h := &failingOpenHandle{}
	change := func(c *supervisor.Config) { h.Processes, c.Processes = c.Processes, h }
	inBubble(t, change, func(r *rig) {
		r.Reconciled()
		h.fail.Store(true)
		vm := r.startOwned(goneOwner)
		for range 5 {
			r.DomainsChanged()
			r.advance(time.Second)
		}
		h.fail.Store(false)
		r.advance(gracePeriod + time.Minute)
		r.expectSignals(vm, "TERM")
		r.advance(time.Minute)
		if r.HasPod(goneOwner.UID) {
			t.Error("the supervisor keeps a tie after the end of the VM")
		}
	})
}

// The end of an orphan takes the helpers in its cgroup along.
func TestHelperOfAnOrphan(t *testing.T) {
	inBubble(t, nil, func(r *rig) {
		r.Reconciled()
		r.kernel.Ignores = func(_ int, signal string) bool { return signal == "TERM" }
		r.kernel.Write(vmScope, "cgroup.type", "domain\n")
		vm := r.startProcess(vmScope + "/emulator")
		helper := r.startProcess(vmScope + "/helper")
		r.kernel.SetArguments(vm.PID, "qemu-system-x86_64", "-uuid", domainUUID)
		r.domains.Run(tie.Domain{Name: "one", UUID: domainUUID, PID: vm.PID, Owner: goneOwner})
		r.ProcessEvent(r.tracker.Exec(vm, "qemu-system-x86_64"))
		r.advance(gracePeriod + 2*termPeriod)
		if r.alive(vm) || r.alive(helper) {
			t.Errorf("VM alive: %t, helper alive: %t", r.alive(vm), r.alive(helper))
		}
	})
}

func TestDomainCgroup(t *testing.T) {
	for cgroup, want := range map[string]string{
		`/machine.slice/machine-qemu\x2d1\x2done.scope/libvirt/emulator`: `/machine.slice/` +
			`machine-qemu\x2d1\x2done.scope`,
		"/machine/qemu-1-one.libvirt-qemu/emulator": "/machine/qemu-1-one.libvirt-qemu",
		"machine/qemu-1-one.libvirt-qemu":           "/machine/qemu-1-one.libvirt-qemu",
		`/machine.slice/machine-lxc\x2d1.scope`:     "",
		`/machine.slice/machine-qemu\x2d1.slice`:    "",
		"/system.slice/session.scope":               "",
		"/machine/lxc-1-one.libvirt-qemu":           "",
		"/machine/qemu-1-one.libvirt-lxc":           "",
		"/":                                         "", "": "",
	} {
		if got := supervisor.DomainCgroup(cgroup); got != want {
			t.Errorf("%s: %q, want %q", cgroup, got, want)
		}
	}
}
