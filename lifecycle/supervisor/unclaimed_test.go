package supervisor_test

import (
	"testing"
	"time"

	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/lifecycle/host"
	"github.com/mooring-vm/mooring/lifecycle/registry"
	"github.com/mooring-vm/mooring/lifecycle/tie"
)

// nodeEvents returns the Events of the node itself.
func (r *rig) nodeEvents() (all []agentapi.Event) {
	for _, e := range r.recorder.Events() {
		if e.Pod == (agentapi.PodRef{}) {
			all = append(all, e)
		}
	}
	return all
}

// A launcher starts its domain and ends while the agent is away.
func TestDomainOfALauncherInAnAbsence(t *testing.T) {
	for name, c := range map[string]struct {
		foreign  string // domain that no launcher may declare
		claimed  bool   // by a launcher in the runtime's list
		reported bool
	}{
		"launcher gone":        {reported: true},
		"launcher in the list": {claimed: true},
		"other user's domain":  {foreign: "one"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, withAllStops, func(r *rig) {
				r.stop()
				r.domains.Foreign = c.foreign
				vm := r.startDomain("/machine/x")
				r.start()
				r.advance(time.Minute)
				if events := r.nodeEvents(); len(events) != 0 {
					t.Fatalf("Events before the runtime's list: %+v", events)
				}
				if c.claimed {
					l := registry.Launcher{Domain: "one"}
					l.Pod = agentapi.PodRef{Namespace: "vms", Name: "vm", UID: "uid-vm"}
					l.Container = agentapi.ContainerRef{Name: "compute", ID: "id-vm"}
					l.State = agentapi.StateCreated
					r.config.Registry.Put(l)
				}
				r.Reconciled()
				r.advance(time.Hour)
				r.expectSignals(vm)
				events := r.nodeEvents()
				if !c.reported {
					if len(events) != 0 {
						t.Errorf("Events %+v, want none", events)
					}
					return
				}
				if len(events) != 1 || events[0].Reason != agentapi.ReasonVMUnattended ||
					events[0].Container.PID != vm.PID {
					t.Fatalf("Events %+v, want one VMUnattended", events)
				}
				r.kernel.Exit(vm.PID)
				r.domains.Forget(domainUUID)
				r.advance(time.Minute)
				r.startDomain("/machine/x")
				r.advance(time.Minute)
				if events := r.nodeEvents(); len(events) != 2 {
					t.Errorf("%d Events after another start, want 2", len(events))
				}
			})
		})
	}
}

// A policy can name a libvirt that the node does not have.
func TestEmulatorWithoutLibvirt(t *testing.T) {
	inBubble(t, nil, func(r *rig) {
		l := r.launch("vm", nil)
		r.domains.Fail(errNoAnswer)
		vm := r.startProcess("/elsewhere")
		r.tracker.Inherit(vm, r.group(l))
		r.executeInherited(vm)
		r.expectPhase(l, agentapi.PhaseActive, agentapi.VMRunning)
	})
}

// An emulator of the launcher may block the reading of its command line.
func TestHiddenEmulatorWithARecord(t *testing.T) {
	withHangingArguments(t, func(r *rig, h *hangingArguments) {
		l := r.launch("vm", nil)
		release := make(chan struct{})
		defer close(release)
		vm := r.kernel.Start(500, "/elsewhere", host.Rlimit{})
		h.block(vm.PID, release)
		r.tracker.Inherit(vm, r.group(l))
		r.domains.Run(tie.Domain{Name: "one", UUID: domainUUID, PID: vm.PID})
		r.kernel.SetArguments(vm.PID, "qemu-kvm", "-uuid", domainUUID)
		r.tracker.Exec(vm, "qemu-kvm") // a resync finds it
		r.advance(time.Minute)
		r.expectPhase(l, agentapi.PhaseActive, agentapi.VMRunning)
	})
}
