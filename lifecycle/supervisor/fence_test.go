package supervisor_test

import (
	"testing"

	"github.com/mooring-vm/mooring/lifecycle/host"
	"github.com/mooring-vm/mooring/lifecycle/registry"
	"github.com/mooring-vm/mooring/lifecycle/tie"
)

// TestFenceFindsNewVMs: VMs that start while the agent is away, inside of the pod and
// outside, do not outlive a launcher that the fence sees end. The tracker tells it
// nothing.
func TestFenceFindsNewVMs(t *testing.T) {
	for name, start := range map[string]func(*rig, launcher) host.Process{
		"inside": func(r *rig, l launcher) host.Process { return r.process(l.cgroup) },
		"outside": func(r *rig, _ launcher) host.Process {
			vm := r.process("/machine/one")
			r.domains.Run(tie.Domain{Name: "one", UUID: domainUUID, PID: vm.PID})
			return vm
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, nil, func(r *rig) {
				l := r.launch("vm", declares)
				r.stop()
				r.config.Terms.ProofOnly = true
				r.config.Registry = registry.New()
				r.start()
				vm := start(r, l)
				r.kernel.SetArguments(vm.PID, "qemu-system-x86_64", "-uuid", domainUUID)
				r.tracker.Exec(vm, "qemu-system-x86_64")
				r.after(grace)
				if !r.lives(vm) {
					t.Fatal("the VM of a launcher that lives was stopped")
				}
				r.kernel.Exit(l.owner.PID)
				r.after(grace + term)
				if r.lives(vm) {
					t.Error("the VM outlives its launcher")
				}
			})
		})
	}
}
