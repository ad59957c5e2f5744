package supervisor_test

import (
	"testing"

	"github.com/mooring-vm/mooring/lifecycle/host"
	"github.com/mooring-vm/mooring/lifecycle/registry"
	"github.com/mooring-vm/mooring/lifecycle/tie"
)

// VMs that start in the agent's absence, inside or outside the pod, do not outlive a launcher that
// ends under the fence. The fence gets no events from the tracker.
func TestFenceFindsNewVMs(t *testing.T) {
	for name, start := range map[string]func(*rig, launcher) host.Process{
		"inside": func(r *rig, l launcher) host.Process { return r.startProcess(l.cgroup) },
		"outside": func(r *rig, _ launcher) host.Process {
			vm := r.startProcess("/machine/one")
			r.domains.Run(tie.Domain{Name: "one", UUID: domainUUID, PID: vm.PID})
			return vm
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, nil, func(r *rig) {
				l := r.launch("vm", withDomain)
				r.stop()
				r.config.Terms.ProofOnly = true
				r.config.Registry = registry.New()
				r.start()
				vm := start(r, l)
				r.kernel.SetArguments(vm.PID, "qemu-system-x86_64", "-uuid", domainUUID)
				r.tracker.Exec(vm, "qemu-system-x86_64")
				r.advance(gracePeriod)
				if !r.alive(vm) {
					t.Fatal("the fence has stopped the VM of a live launcher")
				}
				r.kernel.Exit(l.process.PID)
				r.advance(gracePeriod + termPeriod)
				if r.alive(vm) {
					t.Error("the VM outlives its launcher")
				}
			})
		})
	}
}
