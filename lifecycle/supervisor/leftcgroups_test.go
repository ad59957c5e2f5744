package supervisor_test

import (
	"testing"
	"time"

	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/lifecycle/host"
	"github.com/mooring-vm/mooring/lifecycle/tie"
)

const vmScope = "/machine/qemu-1-one.libvirt-qemu"

// A helper, such as virtiofsd, outlives the emulator in the VM's own cgroup.
func TestHelperDelaysStopConfirmation(t *testing.T) {
	for name, end := range map[string]func(*rig, launcher, host.Process){
		"ends": func(r *rig, _ launcher, helper host.Process) { r.kernel.Exit(helper.PID) },
		"cgroup removed": func(r *rig, _ launcher, helper host.Process) {
			r.kernel.Exit(helper.PID)
			r.kernel.Rmdir(vmScope)
		},
		"agent restarts": func(r *rig, l launcher, helper host.Process) {
			r.stop()
			r.start()
			r.Reconciled()
			r.advance(time.Minute)
			if !r.stopRequested(l) {
				r.t.Error("stop confirmed after a restart of the agent")
			}
			r.kernel.Exit(helper.PID)
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, nil, func(r *rig) {
				r.Reconciled()
				l := r.launch("vm", withDomain)
				vm := r.startDomain(vmScope + "/emulator")
				helper := r.startProcess(vmScope + "/helper")
				r.requestStop(l)
				r.exit(vm, "exit code 0")
				r.domains.Forget(domainUUID)
				r.advance(5 * time.Minute)
				if !r.stopRequested(l) {
					t.Fatal("stop confirmed before the end of the helper")
				}
				r.expectEvent(agentapi.ReasonVMStuck)
				end(r, l, helper)
				r.advance(time.Minute)
				if r.stopRequested(l) {
					t.Error("stop not confirmed after the end of the helper")
				}
				r.expectSignals(helper)
			})
		})
	}
}

// Another VM gets a cgroup with the same path.
func TestReusedCgroupDelaysNoStopConfirmation(t *testing.T) {
	inBubble(t, nil, func(r *rig) {
		const uuid = "a4e2f9d1-6f06-4c8b-9d8f-5a1c2b3d4e5f"
		l := r.launch("vm", withDomain)
		vm := r.startDomain(vmScope + "/emulator")
		// keeps the cgroup until the other VM starts
		helper := r.startProcess(vmScope + "/emulator")
		r.exit(vm, "exit code 0")
		r.domains.Forget(domainUUID)
		other := r.startProcess(vmScope + "/emulator")
		r.kernel.SetArguments(other.PID, "qemu-system-x86_64", "-uuid", uuid)
		r.domains.Run(tie.Domain{Name: "two", UUID: uuid, PID: other.PID})
		r.ProcessEvent(r.tracker.Exec(other, "qemu-system-x86_64"))
		r.kernel.Exit(helper.PID)
		r.requestStop(l)
		r.advance(time.Minute)
		if r.stopRequested(l) {
			t.Error("the stop waits for another VM")
		}
		r.expectSignals(other)
	})
}

// The guest takes long to shut down, and its helper ends right after it.
func TestHelperEndsSoonAfterASlowGuest(t *testing.T) {
	inBubble(t, nil, func(r *rig) {
		r.Reconciled()
		l := r.launch("vm", withDomain)
		vm := r.startDomain(vmScope + "/emulator")
		helper := r.startProcess(vmScope + "/helper")
		r.requestStop(l)
		r.advance(2 * termPeriod)
		r.exit(vm, "exit code 0")
		r.domains.Forget(domainUUID)
		r.advance(termPeriod / 2)
		r.kernel.Exit(helper.PID)
		r.advance(time.Minute)
		if r.stopRequested(l) {
			t.Error("stop not confirmed after the end of the helper")
		}
		r.expectWait(false)
	})
}
