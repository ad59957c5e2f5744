package supervisor_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/lifecycle/host"
	"github.com/mooring-vm/mooring/lifecycle/lifecycletest"
	"github.com/mooring-vm/mooring/lifecycle/registry"
	"github.com/mooring-vm/mooring/lifecycle/supervisor"
	"github.com/mooring-vm/mooring/lifecycle/tie"
)

var goneOwner = agentapi.PodRef{Namespace: "vms", Name: "gone", UID: "uid-gone"}

// startOwned starts the domain "one" with this owner in its metadata, while the agent is away or
// not.
func (r *rig) startOwned(owner agentapi.PodRef) host.Process {
	vm := r.startProcess("/machine/x")
	r.kernel.SetArguments(vm.PID, "qemu-system-x86_64", "-uuid", domainUUID)
	r.domains.Run(tie.Domain{Name: "one", UUID: domainUUID, PID: vm.PID, Owner: owner})
	event := r.tracker.Exec(vm, "qemu-system-x86_64")
	r.ProcessEvent(event)
	return vm
}

// expectNotes fails the test unless n Events with this reason are about the pod and have this text.
func (r *rig) expectNotes(n int, reason agentapi.Reason, pod agentapi.PodRef, text string) {
	r.t.Helper()
	found := 0
	for _, e := range r.recorder.Events() {
		if e.Reason == reason && e.Pod == pod && strings.Contains(e.Message, text) {
			found++
		}
	}
	if found != n {
		r.t.Errorf("%d Events %s about %+v with %q, want %d: %v", found, reason, pod, text, n,
			r.recorder.Events())
	}
}

// A launcher starts a domain and ends while the agent is away. The runtime's list and the cgroups
// prove that the owner in the domain's metadata is gone.
func TestLauncherThatCameAndWentInAnAbsence(t *testing.T) {
	for _, enforce := range []bool{true, false} {
		change := func(c *supervisor.Config) { c.Terms.Enforce = enforce }
		inBubble(t, change, func(r *rig) {
			r.stop()
			vm := r.startOwned(goneOwner)
			r.start()
			r.advance(time.Minute)
			r.expectSignals(vm) // the runtime may still list the pod
			r.Reconciled()
			r.advance(time.Second)
			r.expectNotes(1, agentapi.ReasonOwnerGone, goneOwner, "metadata")
			if !enforce {
				r.advance(time.Hour)
				r.expectSignals(vm)
				r.expectNotes(1, agentapi.ReasonWouldStop, goneOwner, "domain one")
				return
			}
			r.expectNotes(1, agentapi.ReasonVMShutdown, goneOwner, "domain one")
			r.stop() // the next agent goes on
			r.start()
			r.Reconciled()
			r.advance(gracePeriod + time.Second)
			r.expectSignals(vm, "TERM")
			r.advance(time.Minute)
			if r.HasPod(goneOwner.UID) {
				t.Error("the supervisor keeps the tie after the end of the VM")
			}
			if stored, err := r.store.Load(); len(stored) != 0 || err != nil {
				t.Errorf("stored ties: %+v, %v", stored, err)
			}
		})
	}
}

// Without the whole proof the VM stays.
func TestOwnerThatMayLive(t *testing.T) {
	claim := func(uid string) func(*rig) {
		return func(r *rig) {
			l := registry.Launcher{SandboxID: "s"}
			l.Pod = agentapi.PodRef{Namespace: "vms", Name: "p", UID: uid}
			l.Container = agentapi.ContainerRef{Name: "compute", ID: "id-" + uid}
			l.State = agentapi.StateCreated
			if uid != goneOwner.UID {
				l.Domain = "one"
			}
			r.config.Registry.Put(l)
		}
	}
	for name, c := range map[string]struct {
		owner   agentapi.PodRef
		prepare func(*rig)
	}{
		"no owner":      {agentapi.PodRef{}, func(*rig) {}},
		"its cgroup":    {goneOwner, func(r *rig) { r.kernel.Write("/kubepods/poduid-gone", "x", "") }},
		"its launcher":  {goneOwner, claim(goneOwner.UID)},
		"another claim": {goneOwner, claim("uid-other")}, // the VM has migrated here
		"a claimant": {goneOwner, func(r *rig) {
			r.launch("other", withDomain)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, withAllStops, func(r *rig) {
				r.Reconciled()
				c.prepare(r)
				vm := r.startOwned(c.owner)
				r.advance(time.Hour)
				r.expectSignals(vm)
				r.expectNotes(0, agentapi.ReasonOwnerGone, goneOwner, "")
			})
		})
	}
}

// unreadableHierarchy is a node whose cgroups cannot be read.
type unreadableHierarchy struct{ supervisor.Processes }

func (unreadableHierarchy) PodCgroupExists(string) (bool, error) {
	return false, errors.New("input/output error")
}

// An unreadable hierarchy proves no end of the owner.
func TestOwnerWithUnknownCgroup(t *testing.T) {
	change := func(c *supervisor.Config) {
		withAllStops(c)
		c.Processes = unreadableHierarchy{c.Processes}
	}
	inBubble(t, change, func(r *rig) {
		r.Reconciled()
		vm := r.startOwned(goneOwner)
		r.advance(time.Hour)
		r.expectSignals(vm)
		r.expectNotes(0, agentapi.ReasonOwnerGone, goneOwner, "")
	})
}

// The fence ends no VM without a tie.
func TestFenceIgnoresOwners(t *testing.T) {
	change := func(c *supervisor.Config) { c.Terms.ProofOnly = true }
	inBubble(t, change, func(r *rig) {
		r.Reconciled()
		r.launch("other", func(l *registry.Launcher) { l.Domain = "two" }) // it reads the records
		vm := r.startOwned(goneOwner)
		r.advance(time.Hour)
		r.expectSignals(vm)
		r.expectNotes(0, agentapi.ReasonOwnerGone, goneOwner, "")
	})
}

// `virsh start` long after the end of the launcher, under a policy that only reports unattended
// VMs. The owner in the metadata decides.
func TestOwnedDomainStartedLongAfterItsLauncher(t *testing.T) {
	for name, owned := range map[string]bool{"owner": true, "no owner": false} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, nil, func(r *rig) {
				r.Reconciled()
				l := r.launch("vm", withDomain)
				r.exit(l.process, "SIGKILL")
				r.config.Registry.RemoveContainer(l.Container.ID)
				r.advance(time.Minute)
				owner := agentapi.PodRef{}
				if owned {
					owner = l.Pod
				}
				vm := r.startOwned(owner)
				r.advance(gracePeriod + 2*termPeriod)
				r.expectUnattendedEvent(vm)
				if r.alive(vm) == owned {
					t.Errorf("VM alive: %t, owned: %t", r.alive(vm), owned)
				}
			})
		})
	}
}

// An ended launcher has declared the domain, and the metadata names another pod, which is gone,
// too. The VM is an orphan of that pod.
func TestOwnedDomainAfterAnotherLauncher(t *testing.T) {
	inBubble(t, nil, func(r *rig) {
		r.Reconciled()
		l := r.launch("vm", withDomain)
		r.exit(l.process, "SIGKILL")
		r.config.Registry.RemoveContainer(l.Container.ID)
		r.advance(time.Minute)
		vm := r.startOwned(goneOwner)
		r.advance(gracePeriod + 2*termPeriod)
		r.expectNotes(1, agentapi.ReasonOwnerGone, goneOwner, "metadata")
		r.expectNotes(0, agentapi.ReasonVMUnattended, l.Pod, "")
		if r.alive(vm) {
			t.Error("the VM of a gone owner is alive")
		}
	})
}

// An agent knows the ended launchers of the last one.
func TestDomainStartedAfterItsLauncherAndARestart(t *testing.T) {
	for name, stops := range map[string]bool{"report": false, "stop": true} {
		t.Run(name, func(t *testing.T) {
			var former lifecycletest.Store
			change := func(c *supervisor.Config) {
				c.Former, c.Terms.StopUnattended = &former, stops
			}
			inBubble(t, change, func(r *rig) {
				l := r.launch("vm", withDomain)
				r.exit(l.process, "SIGKILL")
				r.config.Registry.RemoveContainer(l.Container.ID)
				r.advance(time.Minute)
				r.stop()
				r.start()
				if r.HasPod(l.Pod.UID) {
					t.Error("the supervisor has a tie of the ended launcher")
				}
				r.Reconciled()
				r.advance(time.Minute)
				vm := r.startDomain("/machine/x")
				r.advance(gracePeriod + 2*termPeriod)
				r.expectUnattendedEvent(vm)
				if r.alive(vm) == stops {
					t.Errorf("VM alive: %t, want %t", stops, !stops)
				}
				r.advance(time.Minute)
				if stored, err := former.Load(); len(stored) != 1 || err != nil {
					t.Errorf("former launchers: %+v, %v", stored, err)
				}
			})
		})
	}
}

// A later launcher of the domain replaces a former one, in the store, too.
func TestFormerLaunchersAreBounded(t *testing.T) {
	var former lifecycletest.Store
	inBubble(t, func(c *supervisor.Config) { c.Former = &former }, func(r *rig) {
		r.Reconciled()
		for _, name := range []string{"a", "b", "c"} {
			l := r.launch(name, withDomain)
			r.exit(l.process, "SIGKILL")
			r.config.Registry.RemoveContainer(l.Container.ID)
			r.advance(time.Minute)
			stored, err := former.Load()
			if err != nil || len(stored) != 1 || stored[0].Launcher.Pod.Name != name {
				t.Errorf("former launchers: %+v, %v, want %s", stored, err, name)
			}
		}
	})
}

// A domain that requires an owner and never had one is reported once. It is stopped by no guess.
func TestDomainThatNeverHadAnOwner(t *testing.T) {
	change := func(c *supervisor.Config) {
		withAllStops(c)
		c.RequiresOwner = func(domain string) bool { return domain == "one" }
	}
	inBubble(t, change, func(r *rig) {
		vm := r.startOwned(agentapi.PodRef{})
		r.advance(time.Minute)
		if slices.Contains(r.recorder.Reasons(), agentapi.ReasonVMUnattended) {
			t.Error("reported before the runtime's list")
		}
		r.Reconciled()
		r.advance(time.Hour)
		r.expectSignals(vm)
		r.expectNotes(1, agentapi.ReasonVMUnattended, agentapi.PodRef{}, "domain one")
	})
	inBubble(t, change, func(r *rig) {
		created := registry.Launcher{SandboxID: "sandbox-created", Domain: "one"}
		created.Pod = agentapi.PodRef{Namespace: "vms", Name: "created", UID: "uid-created"}
		created.Container = agentapi.ContainerRef{Name: "compute", ID: "id-created"}
		created.State = agentapi.StateCreated
		r.config.Registry.Put(created)
		vm := r.startOwned(agentapi.PodRef{})
		r.Reconciled()
		r.advance(time.Minute)
		if slices.Contains(r.recorder.Reasons(), agentapi.ReasonVMUnattended) {
			t.Error("reported although a created launcher declares the domain")
		}
		r.config.Registry.RemoveContainer(created.Container.ID)
		r.advance(time.Hour)
		r.expectSignals(vm)
		r.expectNotes(1, agentapi.ReasonVMUnattended, agentapi.PodRef{}, "domain one")
	})
}
