package supervisor_test

import (
	"context"
	"testing"
	"time"

	"github.com/mooring-vm/mooring/lifecycle/registry"
)

// leasePod sets the pod's own lease, and expects it to reach so many launchers.
func (r *rig) leasePod(l launcher, period time.Duration, want int) {
	r.t.Helper()
	if n, err := r.LeasePod(r.t.Context(), l.Pod.UID, period, "migration"); n != want ||
		err != nil {
		r.t.Errorf("LeasePod = %d, %v, want %d", n, err, want)
	}
}

// A lease of one pod leaves the launchers of other pods alone.
func TestLeasePod(t *testing.T) {
	inBubble(t, nil, func(r *rig) {
		one, other := r.launch("vm", nil), r.launch("other", nil)
		vm, otherVM := r.startQEMU(one.cgroup), r.startQEMU(other.cgroup)
		r.leasePod(one, time.Minute, 1)
		r.exit(one.process, "exit code 0")
		r.exit(other.process, "exit code 0")
		r.advance(time.Minute - time.Second)
		r.expectSignals(vm)
		r.expectSignals(otherVM, "TERM")
		r.advance(2 * time.Second)
		r.expectSignals(vm, "TERM")
	})
}

// A drain meets a migration. The source's VM ends with the migration, not by the agent.
func TestLeasePodDuringDrain(t *testing.T) {
	inBubble(t, nil, func(r *rig) {
		l := r.launch("vm", nil)
		vm := r.startQEMU(l.cgroup)
		r.leasePod(l, 10*time.Minute, 1)
		r.requestStop(l)
		r.advance(9 * time.Minute)
		r.leasePod(l, 10*time.Minute, 1)
		r.advance(9 * time.Minute)
		r.expectSignals(vm)
		r.exit(vm, "exit code 0")
		r.advance(time.Second)
		if r.stopRequested(l) {
			t.Error("the stop is not confirmed after the end of the VM")
		}
	})
}

func TestLeasePodSkipsEndedLauncher(t *testing.T) {
	inBubble(t, nil, func(r *rig) {
		l := r.launch("vm", nil)
		vm := r.startQEMU(l.cgroup)
		r.leasePod(l, time.Minute, 1)
		r.exit(l.process, "exit code 0")
		r.advance(30 * time.Second)
		r.leasePod(l, time.Minute, 0)
		r.advance(31 * time.Second)
		r.expectSignals(vm, "TERM")
	})
}

func TestLeasePodEndsOnlyItsOwnLease(t *testing.T) {
	for name, period := range map[string]time.Duration{
		"no other lease": 0, "lease of an operator": time.Minute,
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, nil, func(r *rig) {
				l := r.launch("vm", nil)
				vm := r.startQEMU(l.cgroup)
				_, err := r.Lease(r.t.Context(), l.Pod.Namespace, l.Pod.Name, period, "maintenance")
				if err != nil {
					t.Fatal(err)
				}
				r.leasePod(l, time.Hour, 1)
				r.exit(l.process, "exit code 0")
				r.leasePod(l, 0, 1)
				if period > 0 {
					r.expectSignals(vm)
					r.expectLease(l, "maintenance")
				}
				r.advance(period + time.Second)
				r.expectSignals(vm, "TERM")
			})
		})
	}
}

func TestLeasePodWithCanceledContext(t *testing.T) {
	inBubble(t, nil, func(r *rig) {
		l := r.launch("vm", nil)
		vm := r.startQEMU(l.cgroup)
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if n, err := r.LeasePod(ctx, l.Pod.UID, time.Minute, "migration"); n != 0 || err == nil {
			t.Fatalf("LeasePod = %d, %v", n, err)
		}
		r.exit(l.process, "exit code 0")
		r.advance(time.Second)
		r.expectSignals(vm, "TERM")
	})
}

func (r *rig) expectLease(l launcher, reason string) {
	r.t.Helper()
	found, _ := r.config.Registry.Find(l.Container.ID)
	if found.Lease == nil || found.Lease.Reason != reason {
		r.t.Errorf("lease %+v, want one for %s", found.Lease, reason)
	}
}

// Pods of two namespaces can have the same name.
func TestLeaseOfTheSameNameElsewhere(t *testing.T) {
	inBubble(t, nil, func(r *rig) {
		one := r.launch("vm", nil)
		other := r.launch("other", func(l *registry.Launcher) {
			l.Pod.Namespace, l.Pod.Name = "elsewhere", "vm"
		})
		vm, otherVM := r.startQEMU(one.cgroup), r.startQEMU(other.cgroup)
		n, err := r.Lease(r.t.Context(), one.Pod.Namespace, "vm", time.Minute, "migration")
		if n != 1 || err != nil {
			t.Errorf("Lease = %d, %v, want one launcher", n, err)
		}
		r.exit(one.process, "exit code 0")
		r.exit(other.process, "exit code 0")
		r.advance(time.Second)
		r.expectSignals(vm)
		r.expectSignals(otherVM, "TERM")
	})
}
