package supervisor_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mooring-vm/mooring/api/vmfile"
	"github.com/mooring-vm/mooring/lifecycle/host"
	"github.com/mooring-vm/mooring/lifecycle/registry"
	"github.com/mooring-vm/mooring/lifecycle/tie"
)

func declares(l *registry.Launcher) { l.Domain = "one" }

// startDeclared starts the domain "one".
func (r *rig) startDeclared() host.Process {
	vm := r.startProcess("/machine/x")
	r.kernel.SetArguments(vm.PID, "qemu-system-x86_64", "-uuid", domainUUID)
	r.domains.Forget(domainUUID)
	r.domains.Run(tie.Domain{Name: "one", UUID: domainUUID, PID: vm.PID})
	r.ProcessEvent(r.tracker.Exec(vm, "qemu-system-x86_64"))
	r.advance(time.Second)
	return vm
}

// expectVM fails the test unless the pod's directory shows this VM.
func (r *rig) expectVM(l launcher, state vmfile.State, p host.Process, reason vmfile.Reason) {
	r.t.Helper()
	r.expectVMOf(l.Pod.UID, state, p, reason)
}

func (r *rig) expectVMOf(uid string, state vmfile.State, p host.Process, reason vmfile.Reason) {
	r.t.Helper()
	want := vmfile.VM{State: state, PID: p.PID, Start: p.Ticks(), Reason: reason}
	if p.PID != 0 {
		want.Domain = "one"
	}
	if got, err := vmfile.Decode(r.podDirs.VM(uid)); err != nil || got != want {
		r.t.Errorf("the pod's directory has %+v, %v, want %+v", got, err, want)
	}
}

// reasons answers each question for the reason of an end with the next reason.
func (r *rig) reasons() chan<- vmfile.Reason {
	answers := make(chan vmfile.Reason, 1)
	r.domains.OnEnd = func(ctx context.Context, d tie.Domain) (vmfile.Reason, error) {
		select {
		case reason := <-answers:
			return reason, nil
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}
	return answers
}

func TestPublishedDomain(t *testing.T) {
	inBubble(t, nil, func(r *rig) {
		answers := r.reasons()
		l := r.launch("one", declares)
		r.expectVM(l, vmfile.Absent, host.Process{}, "")
		first := r.startDeclared()
		r.expectVM(l, vmfile.Running, first, "")
		r.exit(first, "exit code 0")
		r.expectVM(l, vmfile.Ending, first, "")
		answers <- vmfile.Shutdown
		synctest.Wait()
		r.expectVM(l, vmfile.Ended, first, vmfile.Shutdown)
		second := r.startDeclared()
		r.expectVM(l, vmfile.Running, second, "")
		r.exit(second, "signal 9")
		answers <- vmfile.Crashed
		synctest.Wait()
		r.expectVM(l, vmfile.Ended, second, vmfile.Crashed)
	})
}

// An answer about an earlier process comes after the next start of the domain.
func TestLateReasonOfAnEarlierProcess(t *testing.T) {
	inBubble(t, nil, func(r *rig) {
		answers := r.reasons()
		l := r.launch("one", declares)
		r.exit(r.startDeclared(), "")
		second := r.startDeclared()
		answers <- vmfile.Destroyed
		synctest.Wait()
		r.expectVM(l, vmfile.Running, second, "")
		r.exit(second, "")
		r.expectVM(l, vmfile.Ending, second, "")
	})
}

func TestEndWithoutReason(t *testing.T) {
	inBubble(t, nil, func(r *rig) {
		l := r.launch("one", declares)
		vm := r.startDeclared()
		r.exit(vm, "")
		r.advance(time.Second)
		r.expectVM(l, vmfile.Ending, vm, "")
		r.advance(time.Minute)
		r.expectVM(l, vmfile.Ended, vm, vmfile.Unknown)
	})
}

// The VM ends, or libvirt answers, while the agent is away.
func TestEndInAnAbsence(t *testing.T) {
	for _, sawEnd := range []bool{false, true} {
		inBubble(t, nil, func(r *rig) {
			answers := r.reasons()
			l := r.launch("one", declares)
			vm := r.startDeclared()
			if sawEnd {
				r.exit(vm, "")
				r.expectVM(l, vmfile.Ending, vm, "")
			}
			r.stop()
			if !sawEnd {
				r.expectVM(l, vmfile.Running, vm, "") // no agent is no proof
				r.kernel.Exit(vm.PID)
			}
			r.start()
			answers <- vmfile.Destroyed
			synctest.Wait()
			r.expectVM(l, vmfile.Ended, vm, vmfile.Destroyed)
		})
	}
}

// libvirt says "shutdown" for a process that ended by SIGTERM.
func TestEndBySignalOfTheAgent(t *testing.T) {
	inBubble(t, nil, func(r *rig) {
		r.reasons() <- vmfile.Shutdown
		l := r.launch("one", declares)
		vm := r.startDeclared()
		r.requestStop(l)
		r.advance(gracePeriod + time.Second)
		r.expectSignals(vm, "TERM")
		r.exit(vm, "exit code 0")
		r.expectVM(l, vmfile.Ended, vm, vmfile.Terminated)
	})
}

// The directory belongs to the pod. The agent clears the state of an earlier launcher before the
// next one starts, and the end of the earlier launcher's VM changes nothing.
func TestNextLauncherOfThePod(t *testing.T) {
	inBubble(t, nil, func(r *rig) {
		first := r.launch("one", declares)
		vm := r.startDeclared()
		r.exit(first.process, "")
		next := first.Launcher
		next.Container.ID = "id-next"
		next.State = "Created"
		r.config.Registry.Put(next)
		if err := r.Register(next, ""); err != nil {
			t.Fatal(err)
		}
		r.expectVMOf(next.Pod.UID, vmfile.Absent, host.Process{}, "") // without a turn of Run
		r.exit(vm, "")
		r.expectVMOf(next.Pod.UID, vmfile.Absent, host.Process{}, "")
		r.advance(time.Minute)
		r.expectVMOf(next.Pod.UID, vmfile.Absent, host.Process{}, "")
	})
}

// A VM in the pod has no such file.
func TestNoPublishedVMInThePod(t *testing.T) {
	inBubble(t, nil, func(r *rig) {
		l := r.launch("one", nil)
		r.exit(r.startQEMU(l.cgroup), "")
		if got := r.podDirs.VM(l.Pod.UID); got != nil {
			t.Errorf("the pod's directory has %s", got)
		}
	})
}
