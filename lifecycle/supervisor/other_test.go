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

// The launcher of a domain ends in the agent's absence. Another pod, unknown to the agent at the
// next scan, starts the domain.
func TestDomainOfAnUnknownPod(t *testing.T) {
	var suspended atomic.Int64
	for name, absence := range map[string]func(*rig, launcher) host.Process{
		"the agent hangs": func(r *rig, l launcher) host.Process {
			suspended.Add(int64(30 * time.Second))
			r.kernel.Exit(l.process.PID)
			suspended.Add(int64(30 * time.Second))
			return r.startDomainUnobserved()
		},
		"the agent restarts": func(r *rig, l launcher) host.Process {
			r.exit(l.process, "SIGKILL")
			r.advance(time.Second)
			r.stop()
			r.advance(3 * time.Second)
			vm := r.startDomainUnobserved()
			r.config.Registry = registry.New()
			r.start()
			return vm
		},
	} {
		t.Run(name, func(t *testing.T) {
			suspended.Store(0)
			change := func(c *supervisor.Config) {
				withAllStops(c)
				c.Clock = suspendableClock{c.Clock, &suspended}
			}
			inBubble(t, change, func(r *rig) {
				r.kernel.Clock = r.config.Clock
				shutdowns := 0
				r.domains.OnShutdown = func(tie.Domain) error { shutdowns++; return nil }
				r.Reconciled()
				l := r.launch("vm", withDomain)
				r.advance(20 * time.Second)
				vm := absence(r, l)
				r.advance(3 * time.Second)
				other := r.launch("other", withDomain)
				r.Reconciled()
				r.advance(gracePeriod + 2*termPeriod)
				r.expectSignals(vm)
				r.expectPhase(other, agentapi.PhaseActive, agentapi.VMRunning)
				if shutdowns > 0 {
					t.Error("the agent has requested a shutdown of the other pod's guest")
				}
			})
		})
	}
}

// startDomainUnobserved lets libvirt start the domain without an event of the tracker.
func (r *rig) startDomainUnobserved() host.Process {
	vm := r.startProcess("/machine/x")
	r.domains.Run(tie.Domain{Name: "one", UUID: domainUUID, PID: vm.PID})
	r.kernel.SetArguments(vm.PID, "qemu-system-x86_64", "-uuid", domainUUID)
	r.tracker.Exec(vm, "qemu-system-x86_64")
	return vm
}
