package supervisor_test

import (
	"errors"
	"fmt"
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

// The tests of this file are of what must not be concluded: that nothing is left.

const domainUUID = "7b1f0f6e-3f0c-4b0e-9a53-0d9c3c1a7f11"

func declares(l *registry.Launcher) { l.Domain = "one" }

// domain starts the VM that launchers declare, in the node's libvirt.
func (r *rig) domain(cgroup string) host.Process {
	r.t.Helper()
	vm := r.process(cgroup)
	r.kernel.SetArguments(vm.PID, "qemu-system-x86_64", "-uuid", domainUUID)
	r.domains.Run(tie.Domain{Name: "one", UUID: domainUUID, PID: vm.PID})
	r.ProcessEvent(r.tracker.Exec(vm, "qemu-system-x86_64"))
	r.after(time.Second)
	return vm
}

// lives reports whether a process has not ended.
func (r *rig) lives(p host.Process) bool {
	_, err := r.kernel.Identify(p.PID)
	return err == nil
}

// TestDyingIsNotGone: the tracker tells of a process's end before its memory, files
// and devices are given back.
func TestDyingIsNotGone(t *testing.T) {
	inBubble(t, nil, func(r *rig) {
		l := r.launch("vm", nil)
		r.kernel.Ignores = func(int, string) bool { return true }
		vm := r.qemu(l.cgroup)
		r.ask(l)
		r.tracker.Exec(vm, "") // a snapshot shows it no more
		r.ProcessEvent(supervisor.ProcessEvent{Tracked: supervisor.Tracked{Process: vm}, Ended: true, How: "exit code 0"})
		r.after(2 * grace)
		if !r.stopAsked(l) {
			t.Fatal("confirmed before the pidfd has said so")
		}
		r.kernel.Exit(vm.PID)
		r.after(0)
		if r.stopAsked(l) {
			t.Error("not confirmed after it")
		}
	})
}

// TestStopOfARestartedContainer: the pod has one file for all its containers.
func TestStopOfARestartedContainer(t *testing.T) {
	inBubble(t, nil, func(r *rig) {
		l := r.launch("vm", declares)
		vm := r.domain("/machine/qemu-1-one.libvirt-qemu/emulator")
		r.exit(l.owner, "SIGKILL")
		r.is(l, agentapi.PhaseDraining, agentapi.VMStopping)
		again := r.launch("vm", func(l *registry.Launcher) { declares(l); l.Container.ID = "id2-vm" })
		r.ask(again)
		r.after(time.Second)
		if r.lives(vm) && !r.stopAsked(again) {
			t.Error("confirmed while the VM of the container before it runs")
		}
		r.after(grace + term)
		if r.lives(vm) || r.stopAsked(again) {
			t.Errorf("VM lives: %t, stop asked: %t", r.lives(vm), r.stopAsked(again))
		}
	})
}

type failingDomains struct{ supervisor.Domains }

func (failingDomains) Running() ([]tie.Domain, error) { return nil, errors.New("no answer") }

func TestUnreadableRecords(t *testing.T) {
	inBubble(t, func(c *supervisor.Config) { c.Domains = failingDomains{c.Domains} }, func(r *rig) {
		l, plain := r.launch("vm", declares), r.launch("plain", nil)
		r.domain("/machine/x")
		r.ask(l)
		r.ask(plain)
		r.after(5 * time.Minute)
		if !r.stopAsked(l) {
			t.Error("confirmed although nobody knows whether its domain runs")
		}
		if r.stopAsked(plain) {
			t.Error("a launcher without a domain waits for libvirt")
		}
	})
}

// TestDecoys: a pod that has more emulators than are looked after is not over, and its
// domain is bound all the same.
func TestDecoys(t *testing.T) {
	inBubble(t, nil, func(r *rig) {
		l := r.launch("vm", declares)
		decoys := []host.Process{}
		for range 70 {
			decoys = append(decoys, r.qemu(l.cgroup))
		}
		vm := r.domain("/machine/x")
		for _, d := range decoys[:64] {
			r.kernel.Exit(d.PID)
		}
		r.ask(l)
		r.after(grace + 2*term)
		if r.lives(vm) || r.lives(decoys[69]) || r.stopAsked(l) {
			t.Errorf("VM lives: %t, the last decoy: %t, stop asked: %t", r.lives(vm), r.lives(decoys[69]), r.stopAsked(l))
		}
	})
}

// TestNeverStarted: nothing is kept of containers that never ran.
func TestNeverStarted(t *testing.T) {
	inBubble(t, nil, func(r *rig) {
		for i := range 3 {
			l := registry.Launcher{SandboxID: "s"}
			l.Pod = agentapi.PodRef{Namespace: "vms", Name: "x", UID: "uid-x"}
			l.Container = agentapi.ContainerRef{Name: "compute", ID: fmt.Sprint("id-", i)}
			l.State = agentapi.StateCreated
			r.config.Registry.Put(l)
			if err := r.Register(l, "/not/there"); err == nil {
				t.Error("a cgroup that is none was registered")
			}
			synctest.Wait()
			r.config.Registry.RemoveContainer(l.Container.ID)
		}
		r.after(time.Minute)
		if r.HasPod("uid-x") {
			t.Error("they are kept")
		}
	})
}

// failingHold fails while it is told to.
type failingHold struct {
	supervisor.Processes
	fail atomic.Bool
}

func (h *failingHold) OpenHandle(p host.Process, ended func()) (host.Handle, error) {
	if h.fail.Load() {
		return nil, errors.New("too many open files")
	}
	return h.Processes.OpenHandle(p, ended)
}

func TestHandleThatCouldNotBeOpened(t *testing.T) {
	h := &failingHold{}
	inBubble(t, func(c *supervisor.Config) { h.Processes, c.Processes = c.Processes, h }, func(r *rig) {
		l := r.launch("vm", nil)
		vm := r.qemu(l.cgroup)
		r.stop()
		h.fail.Store(true)
		r.start()
		h.fail.Store(false)
		r.ask(l)
		r.after(grace)
		r.sent(vm, "TERM")
	})
}

// TestDomainThatCannotBeHeld: it runs, whoever cannot hold on to it.
func TestDomainThatCannotBeHeld(t *testing.T) {
	h := &failingHold{}
	inBubble(t, func(c *supervisor.Config) { h.Processes, c.Processes = c.Processes, h }, func(r *rig) {
		l := r.launch("vm", declares)
		h.fail.Store(true)
		vm := r.domain("/machine/x")
		r.ask(l)
		r.after(time.Minute)
		if !r.stopAsked(l) {
			t.Fatal("confirmed while the VM runs")
		}
		h.fail.Store(false)
		r.after(time.Minute + grace)
		if r.sent(vm, "TERM"); r.stopAsked(l) {
			t.Error("never confirmed")
		}
	})
}

// TestCgroupOfAnotherVM: what a cgroup was called once says nothing of who is in it.
func TestCgroupOfAnotherVM(t *testing.T) {
	h := &failingHold{}
	inBubble(t, func(c *supervisor.Config) { h.Processes, c.Processes = c.Processes, h }, func(r *rig) {
		l := r.launch("vm", declares)
		const scope = "/machine/qemu-1-one.libvirt-qemu"
		r.kernel.Write(scope, "cgroup.type", "domain\n")
		vm := r.domain(scope + "/emulator")
		r.exit(l.owner, "SIGKILL")
		r.stop()
		h.fail.Store(true)
		r.start()
		r.kernel.Exit(vm.PID)
		other := r.process(scope + "/emulator")
		r.after(5 * time.Minute)
		h.fail.Store(false)
		r.after(5 * time.Minute)
		if !r.lives(other) {
			t.Error("another VM was killed by the path of its cgroup")
		}
	})
}

// TestOwnerThatMoved: a process that lives is a better witness than where it should be.
func TestOwnerThatMoved(t *testing.T) {
	inBubble(t, nil, func(r *rig) {
		l := r.launch("vm", nil)
		vm := r.qemu("/elsewhere/" + l.Container.ID)
		moved := r.process("/elsewhere")
		if err := r.tracker.Bind(moved, r.group(l)); err != nil {
			t.Fatal(err)
		}
		r.ProcessEvent(r.tracker.Exec(moved, "qemu-kvm"))
		r.kernel.Rmdir(l.cgroup)
		r.ScanLauncher(l.Container.ID)
		r.after(5 * time.Minute)
		r.sent(moved)
		r.sent(vm)
		r.exit(l.owner, "exit code 0")
		r.sent(moved, "TERM")
	})
}

// TestTwoMachines: the last option counts, and only who says nothing else is a probe.
func TestTwoMachines(t *testing.T) {
	inBubble(t, nil, func(r *rig) {
		l := r.launch("vm", nil)
		r.qemu(l.cgroup, "-machine", "none", "-machine", "q35")
		r.is(l, agentapi.PhaseActive, agentapi.VMRunning)
	})
}

// TestOldProbe: a probe that does not end is looked after like a VM.
func TestOldProbe(t *testing.T) {
	inBubble(t, nil, func(r *rig) {
		l := r.launch("vm", nil)
		r.qemu(l.cgroup, "-machine", "none")
		r.is(l, agentapi.PhaseRegistered)
		r.after(2 * time.Minute)
		r.is(l, agentapi.PhaseActive, agentapi.VMRunning)
	})
}

// TestLateExec: what is left of a launcher's processes can execute an emulator yet.
func TestLateExec(t *testing.T) {
	inBubble(t, nil, func(r *rig) {
		l := r.launch("vm", nil)
		moved := r.process("/elsewhere")
		if err := r.tracker.Bind(moved, r.group(l)); err != nil {
			t.Fatal(err)
		}
		r.exit(l.owner, "SIGKILL")
		r.after(time.Minute)
		r.ProcessEvent(r.tracker.Exec(moved, "qemu-kvm"))
		r.after(0)
		r.sent(moved, "TERM")
		r.after(time.Minute)
		if r.HasPod(l.Pod.UID) {
			t.Error("it is never over")
		}
	})
}

// TestDaemonize: nobody is told of an exec of the daemon.
func TestDaemonize(t *testing.T) {
	inBubble(t, nil, func(r *rig) {
		l := r.launch("vm", nil)
		parent := r.qemu(l.cgroup)
		child := r.process(l.cgroup)
		forked := r.tracker.Exec(child, "qemu-system-x86_64")
		forked.Forked = true
		r.ProcessEvent(forked)
		r.exit(parent, "exit code 0")
		r.after(time.Second)
		r.is(l, agentapi.PhaseActive, agentapi.VMRunning)
		r.ProcessEvent(r.tracker.Exec(child, "")) // it executes something else
		synctest.Wait()
		r.is(l, agentapi.PhaseRegistered)
	})
}
