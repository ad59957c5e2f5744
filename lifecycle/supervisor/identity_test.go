package supervisor_test

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/lifecycle/host"
	"github.com/mooring-vm/mooring/lifecycle/registry"
	"github.com/mooring-vm/mooring/lifecycle/supervisor"
	"github.com/mooring-vm/mooring/lifecycle/tie"
)

// The tests of this file are about another process or another pod in the place of the right one.

const ownScope = "/machine/qemu-1-one.libvirt-qemu"

// replaceProcess gives the pid of a process to another one. The handle has not notified yet of the
// end of the first process.
func (r *rig) replaceProcess(p host.Process) host.Process {
	r.advance(time.Second)
	return r.kernel.Start(p.PID, p.Cgroup, host.Rlimit{})
}

func TestNoGuestShutdownAfterThePIDIsReused(t *testing.T) {
	inBubble(t, nil, func(r *rig) {
		shutdowns := 0
		r.domains.OnShutdown = func(tie.Domain) error { shutdowns++; return nil }
		l := r.launch("vm", withDomain)
		vm := r.startDomain("/machine/x")
		r.replaceProcess(vm)
		r.exit(l.process, "SIGKILL")
		r.advance(time.Second)
		if shutdowns != 0 {
			t.Error("the agent has requested the shutdown of another VM's guest")
		}
	})
}

func TestNoKillOfACgroupAfterThePIDIsReused(t *testing.T) {
	inBubble(t, nil, func(r *rig) {
		r.kernel.Ignores = func(int, string) bool { return true }
		l := r.launch("vm", withDomain)
		r.kernel.Write(ownScope, "cgroup.type", "domain\n")
		vm := r.startDomain(ownScope + "/emulator")
		r.exit(l.process, "SIGKILL")
		r.advance(gracePeriod)
		r.expectSignals(vm, "TERM")
		other := r.replaceProcess(vm)
		r.advance(2 * termPeriod)
		if now, err := r.kernel.Identify(other.PID); err != nil || !now.Same(other) {
			t.Errorf("process %+v, %v, want the other process alive", now, err)
		}
	})
}

// The domain starts in the life of a launcher, and libvirt records it after the launcher's end. A
// pod without a first process has declared it, too. So the domain belongs to no ended launcher.
func TestDomainClaimedElsewhere(t *testing.T) {
	for name, claim := range map[string]string{"no claim": "", "a claim": "one"} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, nil, func(r *rig) {
				l := r.launch("vm", withDomain)
				var other registry.Launcher
				other.Pod = agentapi.PodRef{Namespace: "vms", Name: "other", UID: "uid-other"}
				other.Container = agentapi.ContainerRef{Name: "compute", ID: "id-other"}
				other.State, other.Domain = agentapi.StateCreated, claim
				r.config.Registry.Put(other)
				vm := r.forkDomain()
				r.exit(l.process, "SIGKILL")
				r.recordDomain(vm)
				r.executeEmulator(vm)
				r.advance(gracePeriod + 2*termPeriod)
				if alive := r.alive(vm); alive != (claim != "") {
					t.Errorf("VM alive: %t, other claim %q", alive, claim)
				}
			})
		})
	}
}

// Only a process that started in the launcher's life can be its VM process.
func TestDomainFromBeforeTheLauncher(t *testing.T) {
	inBubble(t, nil, func(r *rig) {
		vm := r.forkDomain()
		l := r.launch("vm", withDomain)
		r.exit(l.process, "SIGKILL")
		r.recordDomain(vm)
		r.executeEmulator(vm)
		r.advance(gracePeriod + 2*termPeriod)
		r.expectSignals(vm)
	})
}

// The launcher ends while the agent is stopped, and another process gets its pid.
func TestLauncherPIDIsReusedInAnAbsence(t *testing.T) {
	var suspended atomic.Int64
	change := func(c *supervisor.Config) { c.Clock = suspendableClock{c.Clock, &suspended} }
	inBubble(t, change, func(r *rig) {
		r.kernel.Clock = r.config.Clock
		l := r.launch("vm", nil)
		r.kernel.Ignores = func(int, string) bool { return true }
		r.startQEMU(l.cgroup)
		r.replaceProcess(l.process)
		suspended.Add(int64(time.Minute))
		r.advance(time.Second)
		r.expectPhase(l, agentapi.PhaseDraining, agentapi.VMStopping)
	})
}

// movedProcess shows one process in another cgroup.
type movedProcess struct {
	supervisor.Processes
	pid atomic.Int64
}

func (m *movedProcess) Identify(pid int) (host.Process, error) {
	p, err := m.Processes.Identify(pid)
	if int64(pid) == m.pid.Load() {
		p.Cgroup = "/elsewhere"
	}
	return p, err
}

// The VM process has moved, and the cgroup with its domain's name has another process.
func TestNoKillOfACgroupThatTheVMHasLeft(t *testing.T) {
	m := &movedProcess{}
	change := func(c *supervisor.Config) { m.Processes, c.Processes = c.Processes, m }
	inBubble(t, change, func(r *rig) {
		r.kernel.Ignores = func(_ int, signal string) bool { return signal == "TERM" }
		l := r.launch("vm", withDomain)
		r.kernel.Write(ownScope, "cgroup.type", "domain\n")
		vm := r.startDomain(ownScope + "/emulator")
		other := r.startProcess(ownScope + "/emulator")
		m.pid.Store(int64(vm.PID))
		r.exit(l.process, "SIGKILL")
		r.advance(gracePeriod + 2*termPeriod)
		if r.alive(vm) || !r.alive(other) {
			t.Errorf("VM alive: %t, other process alive: %t", r.alive(vm), r.alive(other))
		}
	})
}

// libvirt has ended the domain, and a stale record names the pid of its process for another domain.
func TestNoGuestShutdownByTheRecordOfAnotherDomain(t *testing.T) {
	inBubble(t, nil, func(r *rig) {
		shutdowns := 0
		r.domains.OnShutdown = func(tie.Domain) error { shutdowns++; return nil }
		l := r.launch("vm", withDomain)
		vm := r.startDomain("/machine/x")
		r.domains.Forget(domainUUID)
		r.domains.Run(tie.Domain{Name: "two", UUID: "uuid-two", PID: vm.PID})
		r.exit(l.process, "SIGKILL")
		r.advance(time.Second)
		if shutdowns != 0 {
			t.Error("the agent has requested a shutdown without a record of the domain")
		}
		r.expectSignals(vm, "TERM") // the kernel still shows the orphan
	})
}

type failingIdentify struct {
	supervisor.Processes
	fail atomic.Bool
}

func (f *failingIdentify) Identify(pid int) (host.Process, error) {
	if f.fail.Load() {
		return host.Process{}, errors.New("too many open files")
	}
	return f.Processes.Identify(pid)
}

// An unreadable process may be another one, so its guest gets no request. It may also be the VM
// process, so the agent reports the failure and asks again.
func TestNoGuestShutdownOfAnUnreadableProcess(t *testing.T) {
	f := &failingIdentify{}
	change := func(c *supervisor.Config) { f.Processes, c.Processes = c.Processes, f }
	inBubble(t, change, func(r *rig) {
		var shutdowns atomic.Int64 // the agent counts in the background
		r.domains.OnShutdown = func(tie.Domain) error { shutdowns.Add(1); return nil }
		l := r.launch("vm", withDomain)
		vm := r.startDomain("/machine/x")
		f.fail.Store(true)
		r.exit(l.process, "SIGKILL")
		r.advance(time.Second)
		f.fail.Store(false)
		r.expectNotes(1, agentapi.ReasonVMShutdown, l.Pod, "too many open files")
		if shutdowns.Load() != 0 {
			t.Error("the agent has requested a shutdown of an unknown process")
		}
		r.advance(10 * time.Second)
		if n := shutdowns.Load(); n != 1 {
			t.Errorf("%d requests after the failure, want 1", n)
		}
		r.expectSignals(vm)
	})
}
