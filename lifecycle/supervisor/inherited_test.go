package supervisor_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/lifecycle/host"
	"github.com/mooring-vm/mooring/lifecycle/lifecycletest"
	"github.com/mooring-vm/mooring/lifecycle/registry"
	"github.com/mooring-vm/mooring/lifecycle/supervisor"
	"github.com/mooring-vm/mooring/lifecycle/tie"
)

var errNoAnswer = errors.New("no answer")

// inheritGroup starts a child of a libvirt daemon descending from the launcher.
func (r *rig) inheritGroup(l launcher, cgroup string) host.Process {
	r.t.Helper()
	vm := r.startProcess(cgroup)
	r.tracker.Inherit(vm, r.group(l))
	return vm
}

// executeInherited lets the process execute the emulator of the domain of [withDomain].
func (r *rig) executeInherited(vm host.Process) {
	r.kernel.SetArguments(vm.PID, "qemu-system-x86_64", "-uuid", domainUUID)
	r.ProcessEvent(r.tracker.Exec(vm, "qemu-system-x86_64"))
	synctest.Wait()
	r.advance(time.Second)
}

// libvirtd descends from one launcher, and another launcher declares the domain.
func TestLibvirtDescendsFromAnotherLauncher(t *testing.T) {
	record := func(r *rig, vm host.Process) {
		r.domains.Run(tie.Domain{Name: "one", UUID: domainUUID, PID: vm.PID})
	}
	for name, start := range map[string]func(*rig, host.Process){
		"recorded before the exec": func(r *rig, vm host.Process) {
			record(r, vm)
			r.executeInherited(vm)
		},
		"recorded after the exec": func(r *rig, vm host.Process) {
			r.executeInherited(vm)
			record(r, vm)
			r.DomainsChanged()
			r.advance(time.Second)
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, nil, func(r *rig) {
				ancestor, declarer := r.launch("ancestor", nil), r.launch("declarer", withDomain)
				vm := r.inheritGroup(ancestor, "/machine/x")
				start(r, vm)
				r.expectPhase(declarer, agentapi.PhaseActive, agentapi.VMRunning)
				r.expectPhase(ancestor, agentapi.PhaseRegistered)
				r.requestStop(ancestor)
				r.advance(time.Second)
				if r.stopRequested(ancestor) {
					t.Error("the ancestor's stop waits for the VM of the other launcher")
				}
				r.exit(ancestor.process, "SIGKILL")
				r.advance(gracePeriod + 2*termPeriod)
				r.expectSignals(vm)
				r.exit(declarer.process, "SIGKILL")
				r.advance(gracePeriod + termPeriod)
				r.expectSignals(vm, "TERM")
			})
		})
	}
}

// The declaring launcher has no process yet.
func TestInheritedDomainOfACreatedLauncher(t *testing.T) {
	inBubble(t, nil, func(r *rig) {
		ancestor, other := r.launch("ancestor", nil), r.launch("other", withDomain)
		created := registry.Launcher{SandboxID: "sandbox-created", Domain: "two"}
		created.Pod = agentapi.PodRef{Namespace: "vms", Name: "created", UID: "uid-created"}
		created.Container = agentapi.ContainerRef{Name: "compute", ID: "id-created"}
		created.State = agentapi.StateCreated
		r.config.Registry.Put(created)
		vm := r.inheritGroup(ancestor, "/machine/x")
		r.domains.Run(tie.Domain{Name: "two", UUID: domainUUID, PID: vm.PID})
		r.executeInherited(vm)
		r.requestStop(ancestor)
		r.advance(time.Second)
		if r.stopRequested(ancestor) {
			t.Error("the ancestor's stop waits for the domain of the created launcher")
		}
		r.exit(ancestor.process, "SIGKILL")
		r.advance(gracePeriod + 2*termPeriod)
		r.expectSignals(vm)
		r.expectPhase(other, agentapi.PhaseRegistered)
	})
}

// Without proof of another launcher's domain, an emulator belongs to the launcher from which it
// descends.
func TestInheritedEmulatorWithoutAnotherClaim(t *testing.T) {
	for name, start := range map[string]func(*rig, launcher) host.Process{
		"inside the launcher's cgroup": func(r *rig, l launcher) host.Process {
			vm := r.startProcess(l.cgroup)
			r.domains.Run(tie.Domain{Name: "one", UUID: domainUUID, PID: vm.PID})
			return vm
		},
		"no record": func(r *rig, l launcher) host.Process {
			return r.inheritGroup(l, "/machine/x")
		},
		"the record of an undeclared domain": func(r *rig, l launcher) host.Process {
			vm := r.inheritGroup(l, "/machine/x")
			r.domains.Run(tie.Domain{Name: "three", UUID: domainUUID, PID: vm.PID})
			return vm
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, nil, func(r *rig) {
				ancestor, other := r.launch("ancestor", nil), r.launch("other", withDomain)
				vm := start(r, ancestor)
				r.executeInherited(vm)
				r.expectPhase(ancestor, agentapi.PhaseActive, agentapi.VMRunning)
				r.expectPhase(other, agentapi.PhaseRegistered)
				r.exit(ancestor.process, "SIGKILL")
				r.expectSignals(vm, "TERM")
			})
		})
	}
}

// The emulator runs before libvirt writes its record. The record makes it a node-level VM, so the
// agent asks libvirt to shut down the guest.
func TestRecordOfAnInheritedEmulator(t *testing.T) {
	inBubble(t, nil, func(r *rig) {
		shutdowns := 0
		r.domains.OnShutdown = func(tie.Domain) error { shutdowns++; return nil }
		l := r.launch("vm", withDomain)
		vm := r.inheritGroup(l, "/machine/x")
		r.executeInherited(vm)
		r.expectPhase(l, agentapi.PhaseActive, agentapi.VMRunning)
		r.domains.Run(tie.Domain{Name: "one", UUID: domainUUID, PID: vm.PID})
		r.advance(time.Minute)
		r.exit(l.process, "SIGKILL")
		r.advance(time.Second)
		r.expectSignals(vm)
		if shutdowns != 1 {
			t.Errorf("%d requests to libvirt, want 1", shutdowns)
		}
	})
}

// Without libvirt's records, the launcher of the VM process is unknown.
func TestInheritedEmulatorWithUnknownRecords(t *testing.T) {
	for name, fault := range map[string]struct{ set, clear func(*lifecycletest.Domains) }{
		"all": {
			func(d *lifecycletest.Domains) { d.Fail(errNoAnswer) },
			func(d *lifecycletest.Domains) { d.Fail(nil) },
		},
		"one": {
			func(d *lifecycletest.Domains) { d.Break(tie.Domain{Name: "one"}) },
			func(d *lifecycletest.Domains) { d.Break() },
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, nil, func(r *rig) {
				ancestor := r.launch("ancestor", nil)
				r.launch("declarer", withDomain)
				fault.set(r.domains)
				vm := r.inheritGroup(ancestor, "/machine/x")
				r.executeInherited(vm)
				r.exit(ancestor.process, "SIGKILL")
				r.advance(time.Minute)
				r.expectSignals(vm)
				fault.clear(r.domains)
				r.advance(time.Minute)
				r.expectSignals(vm, "TERM")
			})
		})
	}
}

// A domain of no other launcher stays with its launcher, however often the agent scans.
func TestInheritedDomainStaysWithItsLauncher(t *testing.T) {
	inBubble(t, nil, func(r *rig) {
		ancestor := r.launch("ancestor", nil)
		r.launch("other", withDomain)
		vm := r.inheritGroup(ancestor, "/machine/x")
		r.domains.Run(tie.Domain{Name: "three", UUID: domainUUID, PID: vm.PID})
		r.executeInherited(vm)
		for range 3 {
			r.DomainsChanged()
			r.advance(time.Second)
		}
		started := slices.DeleteFunc(r.recorder.Reasons(), func(reason agentapi.Reason) bool {
			return reason != agentapi.ReasonVMStarted
		})
		if len(started) != 1 {
			t.Errorf("%d Events VMStarted, want 1", len(started))
		}
	})
}

// The tracker reports exit codes and signals, and the pidfd reports the end.
func TestEventHasTheExitReason(t *testing.T) {
	inBubble(t, nil, func(r *rig) {
		l := r.launch("vm", nil)
		r.exit(r.startQEMU(l.cgroup), "SIGSEGV")
		gone := slices.ContainsFunc(r.recorder.Events(), func(e agentapi.Event) bool {
			return e.Reason == agentapi.ReasonVMGone && strings.HasSuffix(e.Message, ": SIGSEGV")
		})
		if n := r.ExitReasons(); !gone || n != 0 {
			t.Errorf("Events %+v, want one with SIGSEGV; %d reasons stay", r.recorder.Events(), n)
		}
	})
}

// The tracker has reported the end of a VM process, and then the process belongs to another
// launcher.
func TestExitReasonOfAReassignedVM(t *testing.T) {
	inBubble(t, nil, func(r *rig) {
		ancestor, declarer := r.launch("ancestor", nil), r.launch("declarer", withDomain)
		vm := r.inheritGroup(ancestor, "/machine/x")
		r.executeInherited(vm)
		r.expectPhase(ancestor, agentapi.PhaseActive, agentapi.VMRunning)
		ended := supervisor.ProcessEvent{Ended: true, How: "SIGSEGV"}
		ended.Process = vm
		r.ProcessEvent(ended)
		r.advance(0)
		if n := r.ExitReasons(); n != 1 {
			t.Fatalf("%d reasons of ends, want 1", n)
		}
		r.domains.Run(tie.Domain{Name: "one", UUID: domainUUID, PID: vm.PID})
		r.DomainsChanged()
		r.advance(time.Second)
		r.expectPhase(declarer, agentapi.PhaseActive, agentapi.VMRunning)
		r.kernel.Exit(vm.PID)
		r.advance(time.Second)
		r.expectPhase(declarer, agentapi.PhaseRegistered)
		if n := r.ExitReasons(); n != 0 {
			t.Errorf("%d reasons of ends stay, want none", n)
		}
	})
}

// A scan has left open whether an inherited emulator is a VM process. Then it executes another
// file, as a helper of an emulator does, and the stop does not wait for it.
func TestInheritedEmulatorIsAHelper(t *testing.T) {
	inBubble(t, nil, func(r *rig) {
		l := r.launch("vm", nil)
		r.domains.Fail(errNoAnswer)
		helper := r.inheritGroup(l, "/machine/x")
		r.executeInherited(helper)
		r.requestStop(l)
		r.advance(time.Minute)
		if !r.stopRequested(l) {
			t.Fatal("the stop is confirmed beside an emulator")
		}
		r.domains.Fail(nil)
		r.ProcessEvent(r.tracker.Exec(helper, ""))
		r.advance(time.Minute)
		if r.stopRequested(l) {
			t.Error("the stop waits for a process that is no emulator")
		}
	})
}

// A scan has left open whether an inherited emulator is a VM process. Then the tracker loses the
// emulator, and the stop still waits for it. A zombie has ended.
func TestInheritedEmulatorIsLost(t *testing.T) {
	for name, end := range map[string]func(*rig, int){
		"reaped": func(r *rig, pid int) { r.kernel.Exit(pid) },
		"zombie": func(r *rig, pid int) { r.kernel.ExitUnreaped(pid) },
	} {
		t.Run(name, func(t *testing.T) { loseInherited(t, end) })
	}
}

func loseInherited(t *testing.T, end func(r *rig, pid int)) {
	inBubble(t, nil, func(r *rig) {
		l := r.launch("vm", nil)
		r.domains.Fail(errNoAnswer)
		vm := r.inheritGroup(l, "/machine/x")
		r.executeInherited(vm)
		r.tracker.Hide(vm, true)
		r.requestStop(l)
		r.exit(l.process, "SIGKILL")
		r.advance(5 * time.Minute)
		if !r.stopRequested(l) || !r.HasPod(l.Pod.UID) {
			t.Errorf("stop request pending: %t, tie kept: %t, want both", r.stopRequested(l),
				r.HasPod(l.Pod.UID))
		}
		if got := strings.Join(r.waits(l), " "); !strings.Contains(got, "no scan has decided") {
			t.Errorf("Events %q, want one about the emulator", got)
		}
		end(r, vm.PID)
		r.advance(time.Minute)
		if r.stopRequested(l) || r.HasPod(l.Pod.UID) {
			t.Errorf("stop request pending: %t, tie kept: %t, want none", r.stopRequested(l),
				r.HasPod(l.Pod.UID))
		}
	})
}
