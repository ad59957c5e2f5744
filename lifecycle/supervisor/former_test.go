package supervisor_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/lifecycle/supervisor"
	"github.com/mooring-vm/mooring/lifecycle/tie"
)

// `virsh start` starts the domain long after the end of its launcher.
func TestDomainStartedLongAfterItsLauncher(t *testing.T) {
	for name, stops := range map[string]bool{"report": false, "stop": true} {
		t.Run(name, func(t *testing.T) {
			change := func(c *supervisor.Config) { c.Terms.StopUnattended = stops }
			inBubble(t, change, func(r *rig) {
				l := r.launch("vm", withDomain)
				r.exit(l.process, "SIGKILL")
				r.config.Registry.RemoveContainer(l.Container.ID)
				r.advance(time.Minute)
				if r.HasPod(l.Pod.UID) {
					t.Fatal("the supervisor keeps the tie")
				}
				vm := r.startDomain("/machine/x")
				r.advance(gracePeriod + 2*termPeriod)
				r.expectUnattendedEvent(vm)
				if r.alive(vm) == stops {
					t.Errorf("VM alive: %t, want %t", stops, !stops)
				}
				r.advance(time.Minute)
				if r.HasPod(l.Pod.UID) {
					t.Error("the supervisor keeps the tie after the end of the VM")
				}
			})
		})
	}
}

// A container of the same pod or another pod claims the domain again.
func TestDomainClaimedAgainLongAfterItsLauncher(t *testing.T) {
	for _, pod := range []string{"vm", "other"} {
		t.Run(pod, func(t *testing.T) {
			inBubble(t, withAllStops, func(r *rig) {
				l := r.launch("vm", withDomain)
				r.exit(l.process, "SIGKILL")
				r.config.Registry.RemoveContainer(l.Container.ID)
				r.advance(time.Minute)
				next := l.Launcher // the runtime has created it; its process is still unknown
				next.Pod.UID, next.Container.ID = "uid-"+pod, "id2"
				next.State = agentapi.StateCreated
				r.config.Registry.Put(next)
				vm := r.startDomain("/machine/x")
				r.advance(gracePeriod + 2*termPeriod)
				r.expectSignals(vm)
			})
		})
	}
}

// Another pod may have started the domain while the agent hung.
func TestDomainStartedInAnAbsenceAfterItsLauncher(t *testing.T) {
	var suspended atomic.Int64
	change := func(c *supervisor.Config) {
		withAllStops(c)
		c.Clock = suspendableClock{c.Clock, &suspended}
	}
	inBubble(t, change, func(r *rig) {
		r.kernel.Clock = r.config.Clock
		l := r.launch("vm", withDomain)
		r.exit(l.process, "SIGKILL")
		r.advance(time.Minute)
		suspended.Add(int64(time.Minute))
		vm := r.startDomainUnobserved()
		r.advance(2 * time.Minute)
		r.expectSignals(vm)
		r.launch("other", withDomain)
		r.Reconciled()
		r.advance(gracePeriod + 2*termPeriod)
		r.expectSignals(vm)
	})
}

// A pod without a claim starts the domain from its own libvirt.
func TestDescendantRunsTheDomainOfAFormerLauncher(t *testing.T) {
	inBubble(t, withAllStops, func(r *rig) {
		l := r.launch("vm", withDomain)
		r.exit(l.process, "SIGKILL")
		r.config.Registry.RemoveContainer(l.Container.ID)
		r.advance(time.Minute)
		ancestor := r.launch("ancestor", nil)
		vm := r.inheritGroup(ancestor, "/machine/x")
		r.domains.Run(tie.Domain{Name: "one", UUID: domainUUID, PID: vm.PID})
		r.executeInherited(vm)
		r.advance(time.Minute)
		r.expectSignals(vm)
		r.expectPhase(ancestor, agentapi.PhaseActive, agentapi.VMRunning)
	})
}
