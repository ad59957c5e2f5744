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

// The tests of this file are about observations that do not prove the end of all VM processes.

const domainUUID = "7b1f0f6e-3f0c-4b0e-9a53-0d9c3c1a7f11"

func withDomain(l *registry.Launcher) { l.Domain = "one" }

// startDomain starts the domain of [withDomain] in the node's libvirt.
func (r *rig) startDomain(cgroup string) host.Process {
	r.t.Helper()
	vm := r.startProcess(cgroup)
	r.kernel.SetArguments(vm.PID, "qemu-system-x86_64", "-uuid", domainUUID)
	r.domains.Run(tie.Domain{Name: "one", UUID: domainUUID, PID: vm.PID})
	r.ProcessEvent(r.tracker.Exec(vm, "qemu-system-x86_64"))
	r.advance(time.Second)
	return vm
}

// alive reports whether a process has not ended.
func (r *rig) alive(p host.Process) bool {
	_, err := r.kernel.Identify(p.PID)
	return err == nil
}

// The tracker's event comes before the process has released its memory, files and devices.
func TestDyingVMDelaysStopConfirmation(t *testing.T) {
	inBubble(t, nil, func(r *rig) {
		l := r.launch("vm", nil)
		r.kernel.Ignores = func(int, string) bool { return true }
		vm := r.startQEMU(l.cgroup)
		r.requestStop(l)
		r.tracker.Exec(vm, "") // no longer in snapshots
		ended := supervisor.ProcessEvent{Ended: true, How: "exit code 0"}
		ended.Process = vm
		r.ProcessEvent(ended)
		r.advance(2 * gracePeriod)
		if !r.stopRequested(l) {
			t.Fatal("stop confirmed before the end of the process")
		}
		r.kernel.Exit(vm.PID)
		r.advance(0)
		if r.stopRequested(l) {
			t.Error("stop not confirmed after the end")
		}
	})
}

// All containers of a pod share one stop request.
func TestStopRequestOfARestartedContainer(t *testing.T) {
	inBubble(t, nil, func(r *rig) {
		l := r.launch("vm", withDomain)
		vm := r.startDomain("/machine/qemu-1-one.libvirt-qemu/emulator")
		r.exit(l.process, "SIGKILL")
		r.expectPhase(l, agentapi.PhaseDraining, agentapi.VMStopping)
		restarted := r.launch("vm", func(l *registry.Launcher) {
			withDomain(l)
			l.Container.ID = "id2-vm"
		})
		r.requestStop(restarted)
		r.advance(time.Second)
		if r.alive(vm) && !r.stopRequested(restarted) {
			t.Error("stop confirmed while the VM of the earlier container runs")
		}
		r.advance(gracePeriod + termPeriod)
		if r.alive(vm) || r.stopRequested(restarted) {
			t.Errorf("VM alive: %t, stop request pending: %t", r.alive(vm),
				r.stopRequested(restarted))
		}
	})
}

type failingDomains struct{ supervisor.Domains }

func (failingDomains) Running() (running, unreadable []tie.Domain, err error) {
	return nil, nil, errors.New("no answer")
}

func TestUnreadableDomainRecords(t *testing.T) {
	inBubble(t, func(c *supervisor.Config) { c.Domains = failingDomains{c.Domains} }, func(r *rig) {
		l, plain := r.launch("vm", withDomain), r.launch("plain", nil)
		r.startDomain("/machine/x")
		r.requestStop(l)
		r.requestStop(plain)
		r.advance(5 * time.Minute)
		if !r.stopRequested(l) {
			t.Error("stop confirmed with unreadable domain records")
		}
		if r.stopRequested(plain) {
			t.Error("the stop of a launcher without a domain waits for libvirt")
		}
		r.expectWait(true)
	})
}

// An unreadable record is unknown for its own domain only.
func TestUnreadableRecordOfOneDomain(t *testing.T) {
	const otherUUID = "a4e2f9d1-6f06-4c8b-9d8f-5a1c2b3d4e5f"
	for _, c := range []struct {
		declared   string
		unreadable tie.Domain
		confirmed  bool
	}{
		{"one", tie.Domain{Name: "two"}, true},
		{"one", tie.Domain{Name: "one"}, false},
		{domainUUID, tie.Domain{Name: "two", UUID: otherUUID}, true},
		{domainUUID, tie.Domain{Name: "one", UUID: domainUUID}, false},
		{domainUUID, tie.Domain{Name: "two"}, false}, // libvirt does not answer
	} {
		t.Run(fmt.Sprint(c.declared, " ", c.unreadable), func(t *testing.T) {
			inBubble(t, nil, func(r *rig) {
				l := r.launch("vm", func(l *registry.Launcher) { l.Domain = c.declared })
				r.domains.Break(c.unreadable)
				r.requestStop(l)
				r.advance(5 * time.Minute)
				if r.stopRequested(l) == c.confirmed {
					t.Errorf("stop confirmed: %t, want %t", !c.confirmed, c.confirmed)
				}
				r.expectWait(!c.confirmed)
			})
		})
	}
}

// A launcher with more VM processes than the limit is not over, and still gets its domain.
func TestMoreVMProcessesThanTheLimit(t *testing.T) {
	inBubble(t, nil, func(r *rig) {
		l := r.launch("vm", withDomain)
		emulators := []host.Process{}
		for range 70 {
			emulators = append(emulators, r.startQEMU(l.cgroup))
		}
		vm := r.startDomain("/machine/x")
		for _, p := range emulators[:64] {
			r.kernel.Exit(p.PID)
		}
		r.requestStop(l)
		r.advance(gracePeriod + 2*termPeriod)
		if r.alive(vm) || r.alive(emulators[69]) || r.stopRequested(l) {
			t.Errorf("VM alive: %t, last emulator alive: %t, stop request pending: %t",
				r.alive(vm), r.alive(emulators[69]), r.stopRequested(l))
		}
	})
}

// The supervisor keeps no ties of such launchers.
func TestLaunchersThatNeverStarted(t *testing.T) {
	inBubble(t, nil, func(r *rig) {
		for i := range 3 {
			l := registry.Launcher{SandboxID: "s"}
			l.Pod = agentapi.PodRef{Namespace: "vms", Name: "x", UID: "uid-x"}
			l.Container = agentapi.ContainerRef{Name: "compute", ID: fmt.Sprint("id-", i)}
			l.State = agentapi.StateCreated
			r.config.Registry.Put(l)
			if err := r.Register(l, "/not/there"); err == nil {
				t.Error("Register accepted a missing cgroup")
			}
			synctest.Wait()
			r.config.Registry.RemoveContainer(l.Container.ID)
		}
		r.advance(time.Minute)
		if r.HasPod("uid-x") {
			t.Error("the supervisor kept a tie")
		}
	})
}

// failingOpenHandle fails while fail is set.
type failingOpenHandle struct {
	supervisor.Processes
	fail atomic.Bool
}

func (h *failingOpenHandle) OpenHandle(p host.Process, ended func()) (host.Handle, error) {
	if h.fail.Load() {
		return nil, errors.New("too many open files")
	}
	return h.Processes.OpenHandle(p, ended)
}

func TestHandleIsOpenedLater(t *testing.T) {
	h := &failingOpenHandle{}
	change := func(c *supervisor.Config) { h.Processes, c.Processes = c.Processes, h }
	inBubble(t, change, func(r *rig) {
		l := r.launch("vm", nil)
		vm := r.startQEMU(l.cgroup)
		r.stop()
		h.fail.Store(true)
		r.start()
		h.fail.Store(false)
		r.requestStop(l)
		r.advance(gracePeriod)
		r.expectSignals(vm, "TERM")
	})
}

func TestNoStopConfirmationWithoutAHandle(t *testing.T) {
	h := &failingOpenHandle{}
	change := func(c *supervisor.Config) { h.Processes, c.Processes = c.Processes, h }
	inBubble(t, change, func(r *rig) {
		l := r.launch("vm", withDomain)
		h.fail.Store(true)
		vm := r.startDomain("/machine/x")
		r.requestStop(l)
		r.advance(time.Minute)
		if !r.stopRequested(l) {
			t.Fatal("stop confirmed while the VM runs")
		}
		h.fail.Store(false)
		r.advance(time.Minute + gracePeriod)
		if r.expectSignals(vm, "TERM"); r.stopRequested(l) {
			t.Error("stop never confirmed")
		}
	})
}

// Another VM can get a cgroup with the same path.
func TestNoKillOfAReusedCgroup(t *testing.T) {
	h := &failingOpenHandle{}
	change := func(c *supervisor.Config) { h.Processes, c.Processes = c.Processes, h }
	inBubble(t, change, func(r *rig) {
		l := r.launch("vm", withDomain)
		const scope = "/machine/qemu-1-one.libvirt-qemu"
		r.kernel.Write(scope, "cgroup.type", "domain\n")
		vm := r.startDomain(scope + "/emulator")
		r.exit(l.process, "SIGKILL")
		r.stop()
		h.fail.Store(true)
		r.start()
		r.kernel.Exit(vm.PID)
		other := r.startProcess(scope + "/emulator")
		r.advance(5 * time.Minute)
		h.fail.Store(false)
		r.advance(5 * time.Minute)
		if !r.alive(other) {
			t.Error("the agent has killed another VM in the cgroup")
		}
	})
}

// The process is alive, although its former cgroup is gone.
func TestMovedLauncherProcess(t *testing.T) {
	inBubble(t, nil, func(r *rig) {
		l := r.launch("vm", nil)
		vm := r.startQEMU("/elsewhere/" + l.Container.ID)
		moved := r.startProcess("/elsewhere")
		if err := r.tracker.Bind(moved, r.group(l)); err != nil {
			t.Fatal(err)
		}
		r.ProcessEvent(r.tracker.Exec(moved, "qemu-kvm"))
		r.kernel.Rmdir(l.cgroup)
		r.ScanLauncher(l.Container.ID)
		r.advance(5 * time.Minute)
		r.expectSignals(moved)
		r.expectSignals(vm)
		r.exit(l.process, "exit code 0")
		r.expectSignals(moved, "TERM")
	})
}

func TestLastMachineOptionCounts(t *testing.T) {
	inBubble(t, nil, func(r *rig) {
		l := r.launch("vm", nil)
		r.startQEMU(l.cgroup, "-machine", "none", "-machine", "q35")
		r.expectPhase(l, agentapi.PhaseActive, agentapi.VMRunning)
	})
}

func TestOldProbeCountsAsVM(t *testing.T) {
	inBubble(t, nil, func(r *rig) {
		l := r.launch("vm", nil)
		r.startQEMU(l.cgroup, "-machine", "none")
		r.expectPhase(l, agentapi.PhaseRegistered)
		r.advance(2 * time.Minute)
		r.expectPhase(l, agentapi.PhaseActive, agentapi.VMRunning)
	})
}

// A remaining process of an ended launcher can still execute an emulator.
func TestExecAfterTheLauncherEnds(t *testing.T) {
	inBubble(t, nil, func(r *rig) {
		l := r.launch("vm", nil)
		moved := r.startProcess("/elsewhere")
		if err := r.tracker.Bind(moved, r.group(l)); err != nil {
			t.Fatal(err)
		}
		r.exit(l.process, "SIGKILL")
		r.advance(time.Minute)
		r.ProcessEvent(r.tracker.Exec(moved, "qemu-kvm"))
		r.advance(0)
		r.expectSignals(moved, "TERM")
		r.advance(time.Minute)
		if r.HasPod(l.Pod.UID) {
			t.Error("the supervisor kept the tie")
		}
	})
}

// A daemon is a fork and has no exec event.
func TestDaemonize(t *testing.T) {
	inBubble(t, nil, func(r *rig) {
		l := r.launch("vm", nil)
		parent := r.startQEMU(l.cgroup)
		child := r.startProcess(l.cgroup)
		forked := r.tracker.Exec(child, "qemu-system-x86_64")
		forked.Forked = true
		r.ProcessEvent(forked)
		r.exit(parent, "exit code 0")
		r.advance(time.Second)
		r.expectPhase(l, agentapi.PhaseActive, agentapi.VMRunning)
		r.ProcessEvent(r.tracker.Exec(child, "")) // executes another file
		synctest.Wait()
		r.expectPhase(l, agentapi.PhaseRegistered)
	})
}
