package supervisor_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/lifecycle/host"
	"github.com/mooring-vm/mooring/lifecycle/registry"
	"github.com/mooring-vm/mooring/lifecycle/supervisor"
	"github.com/mooring-vm/mooring/lifecycle/tie"
)

// The tests of this file are about single checks of a proof: pids return, and a process can have
// the place of another one.

// A process with the launcher's pid ends before the launcher has started. Its event comes late.
func TestLateEventOfAnotherProcess(t *testing.T) {
	inBubble(t, nil, func(r *rig) {
		l := r.launch("vm", nil)
		vm := r.startQEMU(l.cgroup)
		ended := supervisor.ProcessEvent{Ended: true, How: "exit code 0"}
		ended.Process = host.ProcessAt(l.process.PID, l.process.Ticks()-10)
		r.ProcessEvent(ended)
		r.advance(time.Second)
		r.expectSignals(vm)
		r.expectPhase(l, agentapi.PhaseActive, agentapi.VMRunning)
	})
}

// A VM process gets the pid of the launcher process, whose handle has not notified yet. The end of
// the VM process is no proof of the launcher's end.
func TestVMWithThePIDOfItsLauncher(t *testing.T) {
	inBubble(t, nil, func(r *rig) {
		l := r.launch("vm", nil)
		vm := r.replaceProcess(l.process)
		r.ProcessEvent(r.tracker.Exec(vm, "qemu-kvm"))
		r.advance(time.Second)
		r.expectPhase(l, agentapi.PhaseActive, agentapi.VMRunning)
		r.ProcessEvent(r.tracker.Exec(vm, ""))
		synctest.Wait()
		r.expectPhase(l, agentapi.PhaseRegistered)
	})
}

// wrongWatch returns another process with the pid of the watched one.
type wrongWatch struct{ supervisor.Tracker }

func (w wrongWatch) Watch(p host.Process) (host.Process, error) {
	return host.ProcessAt(p.PID, p.Ticks()+10), nil
}

// The tracker knows another process with the launcher's pid.
func TestExactStartOfAnotherProcess(t *testing.T) {
	change := func(c *supervisor.Config) { c.Tracker = wrongWatch{c.Tracker} }
	inBubble(t, change, func(r *rig) {
		l := r.launch("vm", nil)
		r.kernel.Ignores = func(int, string) bool { return true }
		r.startQEMU(l.cgroup)
		ended := supervisor.ProcessEvent{Ended: true, How: "SIGKILL"}
		ended.Process = l.process
		r.ProcessEvent(ended)
		r.advance(time.Second)
		r.expectPhase(l, agentapi.PhaseDraining, agentapi.VMStopping)
	})
}

// The launcher's cgroup decides whether another process with its pid proves its end.
func TestLauncherPIDInAnotherCgroup(t *testing.T) {
	for name, gone := range map[string]bool{"cgroup exists": false, "cgroup removed": true} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, nil, func(r *rig) {
				other := r.startProcess("/elsewhere")
				l := launcher{cgroup: "/kubepods/pod-vm/id-vm"}
				l.Pod = agentapi.PodRef{Namespace: "vms", Name: "vm", UID: "uid-vm"}
				l.Container = agentapi.ContainerRef{Name: "compute", ID: "id-vm", PID: other.PID}
				l.State = agentapi.StateRunning
				r.config.Registry.Put(l.Launcher)
				r.kernel.Write(l.cgroup, "cgroup.type", "domain\n")
				if err := r.Register(l.Launcher, l.cgroup); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				if gone {
					r.kernel.Rmdir(l.cgroup)
				}
				r.LauncherStarted(l.Launcher)
				r.advance(time.Second)
				if r.HasPod("uid-vm") == gone {
					t.Errorf("tie kept: %t, want %t", !gone, !gone)
				}
			})
		})
	}
}

func TestHasLeft(t *testing.T) {
	inBubble(t, nil, func(r *rig) {
		l := r.launch("vm", nil)
		inside, outside := r.startProcess(l.cgroup+"/child"), r.startProcess("/machine/x")
		group := r.group(l)
		cgroups := map[uint64]string{group: l.cgroup, group + 1: ""}
		former := host.ProcessAt(outside.PID, outside.Ticks()-10)
		for name, c := range map[string]struct {
			process host.Process
			group   uint64
			bound   bool
			want    bool
		}{
			"outside":                       {outside, group, false, true},
			"inside":                        {inside, group, false, false},
			"bound":                         {outside, group, true, false},
			"launcher's cgroup unknown":     {outside, group + 1, false, false},
			"another process with this pid": {former, group, false, false},
		} {
			p := supervisor.Tracked{Process: c.process, Group: c.group, Bound: c.bound}
			if got := r.HasLeft(p, cgroups); got != c.want {
				t.Errorf("%s: has left: %t, want %t", name, got, c.want)
			}
		}
	})
}

// An emulator in the cgroup of a launcher without a group has the pid and the UUID of a domain.
func TestDomainInALauncherWithoutAGroup(t *testing.T) {
	full := &fullTracker{}
	change := func(c *supervisor.Config) { full.Tracker, c.Tracker = c.Tracker, full }
	inBubble(t, change, func(r *rig) {
		pod, declarer := r.launch("pod", nil), r.launch("declarer", withDomain)
		vm := r.startDomain(pod.cgroup)
		r.expectVMs(pod, vm)
		r.expectVMs(declarer)
	})
}

// A node-level VM is bound to a launcher that does not declare its domain.
func TestBoundDomainOfAnotherLauncher(t *testing.T) {
	inBubble(t, nil, func(r *rig) {
		l := r.launch("vm", func(l *registry.Launcher) { l.Domain = "two" })
		vm := r.startProcess("/machine/x")
		if err := r.tracker.Bind(vm, r.group(l)); err != nil {
			t.Fatal(err)
		}
		r.kernel.SetArguments(vm.PID, "qemu-kvm", "-uuid", domainUUID)
		r.tracker.Exec(vm, "qemu-kvm")
		r.domains.Run(tie.Domain{Name: "one", UUID: domainUUID, PID: vm.PID})
		r.DomainsChanged()
		r.advance(time.Minute)
		r.expectVMs(l)
		r.exit(l.process, "SIGKILL")
		r.advance(time.Minute)
		r.expectSignals(vm)
	})
}

// libvirtd descends from a launcher, and its child for the domain of another one executes no
// emulator yet.
func TestInheritedDomainStarts(t *testing.T) {
	inBubble(t, nil, func(r *rig) {
		ancestor, declarer := r.launch("ancestor", nil), r.launch("declarer", withDomain)
		vm := r.inheritGroup(ancestor, "/machine/x")
		r.kernel.SetArguments(vm.PID, "/usr/sbin/virtqemud")
		r.recordDomain(vm)
		r.requestStop(declarer)
		r.advance(5 * time.Minute)
		if !r.stopRequested(declarer) {
			t.Error("stop confirmed while libvirt starts the VM")
		}
	})
}

// The end of the launcher was observed, and then the agent has restarted. Another pod may have
// declared the domain since.
func TestEndedLauncherWaitsForTheRuntime(t *testing.T) {
	inBubble(t, nil, func(r *rig) {
		l := r.launch("vm", withDomain)
		r.exit(l.process, "SIGKILL")
		r.stop()
		r.start()
		r.expectKeptUntilListed(t, l)
	})
}

// expectKeptUntilListed expects the tie of an ended launcher until the runtime has listed its
// launchers. It takes two minutes.
func (r *rig) expectKeptUntilListed(t *testing.T, l launcher) {
	t.Helper()
	r.advance(time.Minute)
	if !r.HasPod(l.Pod.UID) {
		t.Error("the tie was dropped before the runtime has listed its launchers")
	}
	r.Reconciled()
	r.advance(time.Minute)
	if r.HasPod(l.Pod.UID) {
		t.Error("the tie was kept")
	}
}

// The VM of an ended launcher does not end. Another pod with the same domain has no VM process.
func TestStopBesideTheVMOfAnotherLauncher(t *testing.T) {
	inBubble(t, nil, func(r *rig) {
		r.Reconciled()
		first := r.launch("first", withDomain)
		r.kernel.Ignores = func(int, string) bool { return true }
		vm := r.startDomain("/machine/x")
		r.exit(first.process, "SIGKILL")
		second := r.launch("second", withDomain)
		r.requestStop(second)
		r.advance(time.Minute)
		if r.stopRequested(second) {
			t.Error("the stop waits for the VM of the other launcher")
		}
		r.expectVMs(first, vm)
	})
}

// replacedAfterRead gives the pid of a process to another one after the next read of its command
// line.
type replacedAfterRead struct {
	supervisor.Processes
	pid     atomic.Int64
	replace func()
}

func (p *replacedAfterRead) Arguments(of host.Process) ([]string, error) {
	args, err := p.Processes.Arguments(of)
	if p.pid.CompareAndSwap(int64(of.PID), 0) {
		p.replace()
	}
	return args, err
}

// The pid of a VM process returns while the agent looks up its cgroup. The VM process does not get
// the cgroup of another domain.
func TestCgroupOfAnotherProcess(t *testing.T) {
	p := &replacedAfterRead{}
	change := func(c *supervisor.Config) { p.Processes, c.Processes = c.Processes, p }
	inBubble(t, change, func(r *rig) {
		l := r.launch("vm", withDomain)
		vm := r.inheritGroup(l, "/machine/x")
		r.executeInherited(vm)
		r.expectVMs(l, vm)
		p.replace = func() {
			r.kernel.Start(vm.PID, "/machine/qemu-2-two.libvirt-qemu/emulator", host.Rlimit{})
		}
		p.pid.Store(int64(vm.PID))
		r.domains.Run(tie.Domain{Name: "one", UUID: domainUUID, PID: vm.PID})
		r.DomainsChanged()
		r.advance(time.Second)
		if p.pid.Load() != 0 {
			t.Fatal("the agent has not read the command line")
		}
		r.domains.Forget(domainUUID)
		r.ProcessEvent(r.tracker.Exec(vm, ""))
		r.requestStop(l)
		r.advance(time.Minute)
		if r.stopRequested(l) {
			t.Errorf("the stop waits for the cgroup of another domain: %q", r.waits(l))
		}
	})
}
