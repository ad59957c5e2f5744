package supervisor_test

import (
	"cmp"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/lifecycle/host"
	"github.com/mooring-vm/mooring/lifecycle/lifecycletest"
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

// storedFormer is a former launcher of a domain, as an earlier agent has stored it.
func storedFormer(name, domain string, goneAt host.Boottime) tie.Tie {
	record := tie.Tie{LauncherGone: "its first process has ended", LauncherGoneAt: goneAt}
	record.LauncherProcess = &host.Process{PID: 7, StartTime: 1}
	record.Launcher.Container.ID, record.Launcher.Domain = "id-"+name, domain
	record.Launcher.Pod.UID = "uid-" + name
	return record
}

// orderedStore loads the ties in the order of their ends, or in reverse.
type orderedStore struct {
	lifecycletest.Store
	reverse bool
}

func (s *orderedStore) Load() ([]tie.Tie, error) {
	all, err := s.Store.Load()
	slices.SortFunc(all, func(a, b tie.Tie) int {
		return cmp.Compare(a.LauncherGoneAt, b.LauncherGoneAt)
	})
	if s.reverse {
		slices.Reverse(all)
	}
	return all, err
}

// restoreFormer runs a supervisor with these former launchers, and returns the kept ones.
func restoreFormer(
	t *testing.T, reverse bool, ties []tie.Tie, former ...tie.Tie,
) (kept map[string]bool) {
	t.Helper()
	store := orderedStore{reverse: reverse}
	kept = map[string]bool{}
	inBubble(t, func(c *supervisor.Config) {
		c.Former = &store
		for _, record := range former {
			_ = store.Save(record)
		}
		for _, record := range ties {
			_ = c.Store.Save(record)
		}
	}, func(r *rig) {
		r.advance(time.Second)
		all, err := store.Load()
		if err != nil {
			t.Error(err)
		}
		for _, record := range all {
			kept[record.Launcher.Container.ID] = true
		}
	})
	return kept
}

// The supervisor keeps the latest 1,024 former launchers.
func TestOldestFormerLauncherIsForgotten(t *testing.T) {
	var all []tie.Tie
	for i := range 1026 {
		all = append(all, storedFormer(fmt.Sprint(i), fmt.Sprint("vm-", i), host.Boottime(10+i)))
	}
	kept := restoreFormer(t, false, nil, all...)
	if len(kept) != 1024 || kept["id-0"] || kept["id-1"] {
		t.Errorf("%d former launchers, the oldest two: %t, %t, want the other 1024", len(kept),
			kept["id-0"], kept["id-1"])
	}
}

// Of two former launchers of a domain, the one that ended later stays, in any order.
func TestLaterFormerLauncherStays(t *testing.T) {
	for _, reverse := range []bool{false, true} {
		kept := restoreFormer(t, reverse, nil, storedFormer("early", "one", 10),
			storedFormer("late", "one", 20))
		if kept["id-early"] || !kept["id-late"] {
			t.Fatalf("kept %v, want the later one", kept)
		}
	}
}

// A crash between two writes leaves a launcher in both stores. Its tie counts.
func TestFormerLauncherWithATie(t *testing.T) {
	both := storedFormer("both", "one", 10)
	if kept := restoreFormer(t, false, []tie.Tie{both}, both); len(kept) != 0 {
		t.Errorf("former launchers %v, want none", kept)
	}
}
