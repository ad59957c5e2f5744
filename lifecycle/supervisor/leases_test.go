package supervisor_test

import (
	"context"
	"testing"
	"time"
)

// leasePod has a pod ask for a lease, which has to concern so many launchers.
func (r *rig) leasePod(l launcher, period time.Duration, want int) {
	r.t.Helper()
	if n, err := r.LeasePod(r.t.Context(), l.Pod.UID, period, "migration"); n != want || err != nil {
		r.t.Errorf("LeasePod = %d, %v, want %d", n, err, want)
	}
}

// A pod's lease is that of its launchers alone.
func TestLeasePod(t *testing.T) {
	inBubble(t, nil, func(r *rig) {
		one, other := r.launch("vm", nil), r.launch("other", nil)
		vm, otherVM := r.qemu(one.cgroup), r.qemu(other.cgroup)
		r.leasePod(one, time.Minute, 1)
		r.exit(one.owner, "exit code 0")
		r.exit(other.owner, "exit code 0")
		r.after(time.Minute - time.Second)
		r.sent(vm)
		r.sent(otherVM, "TERM")
		r.after(2 * time.Second)
		r.sent(vm, "TERM")
	})
}

// Whoever is left in a pod cannot have the VM of a launcher that is gone kept for ever.
func TestLeasePodOfLauncherThatIsGone(t *testing.T) {
	inBubble(t, nil, func(r *rig) {
		l := r.launch("vm", nil)
		vm := r.qemu(l.cgroup)
		r.leasePod(l, time.Minute, 1)
		r.exit(l.owner, "exit code 0")
		r.after(30 * time.Second)
		r.leasePod(l, time.Minute, 0)
		r.after(31 * time.Second)
		r.sent(vm, "TERM")
	})
}

// It can end what it has asked for, and not what somebody else has.
func TestLeasePodEnds(t *testing.T) {
	for name, period := range map[string]time.Duration{"its own": 0, "that of somebody else": time.Minute} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, nil, func(r *rig) {
				l := r.launch("vm", nil)
				vm := r.qemu(l.cgroup)
				if _, err := r.Lease(r.t.Context(), l.Pod.Namespace, l.Pod.Name, period, "maintenance"); err != nil {
					t.Fatal(err)
				}
				r.leasePod(l, time.Hour, 1)
				r.exit(l.owner, "exit code 0")
				r.leasePod(l, 0, 1)
				if period > 0 {
					r.sent(vm)
					r.leaseShown(l, "maintenance")
				}
				r.after(period + time.Second)
				r.sent(vm, "TERM")
			})
		})
	}
}

// A lease that nobody has waited for does not hold later.
func TestLeasePodTooLate(t *testing.T) {
	inBubble(t, nil, func(r *rig) {
		l := r.launch("vm", nil)
		vm := r.qemu(l.cgroup)
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if n, err := r.LeasePod(ctx, l.Pod.UID, time.Minute, "migration"); n != 0 || err == nil {
			t.Fatalf("LeasePod = %d, %v", n, err)
		}
		r.exit(l.owner, "exit code 0")
		r.after(time.Second)
		r.sent(vm, "TERM")
	})
}

// leaseShown checks what people see.
func (r *rig) leaseShown(l launcher, reason string) {
	r.t.Helper()
	shown, _ := r.config.Registry.Find(l.Container.ID)
	if shown.Lease == nil || shown.Lease.Reason != reason {
		r.t.Errorf("lease %+v, want one for %s", shown.Lease, reason)
	}
}
