package supervisor_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/lifecycle/host"
	"github.com/mooring-vm/mooring/lifecycle/registry"
	"github.com/mooring-vm/mooring/lifecycle/supervisor"
	"github.com/mooring-vm/mooring/lifecycle/tie"
)

// TestDomainOfAPodUnheardOf: while nobody looks, the launcher of a domain ends, and
// another pod starts the domain, of which nobody here has heard when it is looked at.
func TestDomainOfAPodUnheardOf(t *testing.T) {
	var slept atomic.Int64
	for name, absence := range map[string]func(*rig, launcher) host.Process{
		"the agent hangs": func(r *rig, l launcher) host.Process {
			slept.Add(int64(30 * time.Second))
			r.kernel.Exit(l.owner.PID)
			slept.Add(int64(30 * time.Second))
			return r.startsUnseen()
		},
		"the agent is started again": func(r *rig, l launcher) host.Process {
			r.exit(l.owner, "SIGKILL")
			r.after(time.Second)
			r.stop()
			r.after(3 * time.Second)
			vm := r.startsUnseen()
			r.config.Registry = registry.New()
			r.start()
			return vm
		},
	} {
		t.Run(name, func(t *testing.T) {
			slept.Store(0)
			change := func(c *supervisor.Config) { strict(c); c.Clock = sleptClock{c.Clock, &slept} }
			inBubble(t, change, func(r *rig) {
				r.kernel.Clock = r.config.Clock
				asked := 0
				r.domains.OnShutdown = func(tie.Domain) error { asked++; return nil }
				r.Reconciled()
				l := r.launch("vm", declares)
				r.after(20 * time.Second)
				vm := absence(r, l)
				r.after(3 * time.Second)
				other := r.launch("other", declares)
				r.Reconciled()
				r.after(grace + 2*term)
				r.sent(vm)
				r.is(other, agentapi.PhaseActive, agentapi.VMRunning)
				if asked > 0 {
					t.Error("its guest was asked to shut down")
				}
			})
		})
	}
}

// startsUnseen has libvirt start the domain, of which the tracker tells nobody yet.
func (r *rig) startsUnseen() host.Process {
	vm := r.process("/machine/x")
	r.domains.Run(tie.Domain{Name: "one", UUID: domainUUID, PID: vm.PID})
	r.kernel.SetArguments(vm.PID, "qemu-system-x86_64", "-uuid", domainUUID)
	r.tracker.Exec(vm, "qemu-system-x86_64")
	return vm
}
