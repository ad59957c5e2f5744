package resize_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mooring-vm/mooring/shim/resize"
	"github.com/mooring-vm/mooring/shim/resize/target"
	"github.com/mooring-vm/mooring/shim/virt"
)

// What is undone never makes the VM larger than it was in another respect.
func TestUndoNeverAddsUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(vm(t).virtioMem(2*gi, 0))
		r.m.after = func() {
			if r.m.state.Memory.Devices[0].Requested == gi {
				r.m.guest.partly = gi                                           // and nothing any more
				r.m.calls.faults = map[int]fault{r.m.calls.n + 2: refuseBefore} // the look that would confirm it
			}
		}
		report, err := r.run(t, r.m.to(2*gi, 1))
		want := "the guest would have 2Gi: want at most 1Gi"
		if err == nil || !strings.Contains(err.Error(), want) || r.m.state.VCPUs.Plugged != 1 {
			t.Errorf("got %v, want %q\n%s", err, want, steps(report))
		}
	})
	synctest.Test(t, func(t *testing.T) {
		r := newRig(vm(t).virtioMem(2*gi, gi))
		r.m.after = func() {
			r.m.guest.refuseGive = r.m.state.VCPUs.Plugged == 6
			r.m.guest.refuseTake = r.m.guest.refuseGive
		}
		report, err := r.run(t, r.m.to(gi, 6))
		want := "the guest would have 6 vCPUs: want at most 2"
		if err == nil || !strings.Contains(err.Error(), want) || report.Actual.Memory != gi {
			t.Errorf("got %v, want %q\n%s", err, want, steps(report))
		}
	})
}

// A DIMM that cannot be taken back keeps its memory lock.
func TestUndoLeavesTheLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(vm(t).passthrough())
		r.m.guest.refuseGive, r.m.guest.refuseTake = true, true
		report, err := r.run(t, r.m.to(2*gi, 4))
		if err == nil || report.Actual.Lock != 3*gi || report.Actual.Memory != 2*gi {
			t.Errorf("got %v, %+v\n%s", err, report.Actual, steps(report))
		}
	})
}

// What QEMU has locked may be more than libvirt counts.
func TestLockIsNotBelowWhatIsLocked(t *testing.T) {
	m := vm(t).dimm(gi).passthrough().settled()
	is := read(t, m)
	is.Limits.Locked = is.Limits.Lock - mi
	plan, err := resize.MakePlan(is, m.to(gi, 2), resize.Policy{Shrink: true})
	if err != nil {
		t.Fatal(err)
	}
	if last := texts(plan.Steps)[len(plan.Steps)-1]; last != "lower the memory lock of QEMU from 3Gi to 3071Mi" {
		t.Errorf("got %q", last)
	}
}

// The launcher was given more than libvirt wants for its VM: that is what the lock begins
// with, and what it comes back to.
func TestLockIsNotBelowWhatWasGiven(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(vm(t).passthrough())
		r.m.node.seen.Lock, r.m.node.seen.Floor = 2560*mi, 2560*mi
		for _, c := range []struct{ memory, lock uint64 }{{gi, 2560 * mi}, {2 * gi, 3 * gi}, {gi, 2560 * mi}} {
			report, err := r.run(t, r.m.to(c.memory, 2))
			if err != nil || report.Actual.Memory != c.memory || report.Actual.Lock != c.lock {
				t.Errorf("got %v, %+v, want a lock of %d\n%s", err, report.Actual, c.lock, steps(report))
			}
		}
	})
}

// Nor is it where a lock that was raised is taken back.
func TestUndoOfTheLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(unwilling(t).passthrough())
		r.m.node.seen.Floor = 2560 * mi // and somebody has lowered it by hand
		report, err := r.run(t, r.m.to(2*gi, 4))
		if err == nil || report.Actual.Memory != gi || report.Actual.Lock != 2560*mi {
			t.Errorf("got %v, %+v\n%s", err, report.Actual, steps(report))
		}
	})
}

// Nor may it be when that is more than when it was planned.
func TestLockedGrowsInBetween(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(vm(t).dimm(gi).passthrough())
		r.m.after = func() { r.m.node.least = 2560 * mi }
		report, err := r.run(t, r.m.to(gi, 2))
		if err != nil || report.Actual.Lock != 2560*mi {
			t.Errorf("got %v, %+v\n%s", err, report.Actual, steps(report))
		}
	})
}

// The container's limit is lowered by somebody else just before the guest is to grow.
func TestLimitIsLoweredInBetween(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(vm(t).virtioMem(2*gi, 0))
		w := r.m.to(2*gi, 2)
		w.Bandwidth = &target.Bandwidth{Period: 100 * time.Millisecond, Quota: 50 * time.Millisecond}
		w.VCPUs = 1 // its unplugging is the first change
		r.m.after = func() { r.m.node.intruder = true }
		report, err := r.run(t, w)
		if err == nil || !strings.Contains(err.Error(), "memory.max of the pod is 1130Mi and that of the container 1098Mi: want at least 2132Mi") ||
			report.Actual.Memory != gi || report.Actual.VCPUs != 1 {
			t.Errorf("got %v, %+v\n%s", err, report.Actual, steps(report))
		}
	})
}

// An order that is refused is not waited for.
func TestRefusedOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(vm(t))
		r.m.refuse = errRefused
		started := time.Now()
		if _, err := r.run(t, r.m.to(gi, 1)); !errors.Is(err, errRefused) || time.Since(started) > 0 {
			t.Errorf("got %v after %s", err, time.Since(started))
		}
		r.m.refuse = virt.ErrUnconfirmed // it may still follow
		report, err := r.run(t, r.m.to(gi, 1))
		if !errors.Is(err, virt.ErrUnconfirmed) || time.Since(started) < 30*time.Second || report.Actual.VCPUs != 2 {
			t.Errorf("got %v after %s, %+v", err, time.Since(started), report.Actual)
		}
	})
}

// Bandwidth and shares are taken back in one order, as far as they were set.
func TestUndoOfBandwidth(t *testing.T) {
	half := &target.Bandwidth{Period: 100 * time.Millisecond, Quota: 50 * time.Millisecond}
	for _, c := range []struct {
		bandwidth *target.Bandwidth
		shares    int
		want      string // that takes it back
	}{
		{half, 200, "<+ let each vCPU run without a limit instead of 50ms in 100ms, and give the VM 100 CPU shares instead of 200"},
		{half, 0, "<+ let each vCPU run without a limit instead of 50ms in 100ms"},
		{nil, 200, "<+ give the VM 100 CPU shares instead of 200"},
	} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(unwilling(t)) // to use the vCPUs that come after it
			w := r.m.to(gi, 4)
			w.Bandwidth, w.CPUShares = c.bandwidth, c.shares
			before := r.m.state.Bandwidth
			report, err := r.run(t, w)
			told := strings.Split(steps(report), "\n")
			if err == nil || told[len(told)-1] != c.want || r.m.state.Bandwidth != before {
				t.Errorf("got %v, %+v, want %q last in\n%s", err, r.m.state.Bandwidth, c.want, steps(report))
			}
		})
	}
}

// What libvirt takes and does not do is not taken for done.
func TestSharesAreReadBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(vm(t))
		r.m.after = func() { r.m.state.Bandwidth.Shares = usual }
		_, err := r.run(t, formatBandwidth(100*time.Millisecond, 50*time.Millisecond, 200))
		if err == nil || !strings.Contains(err.Error(), "the VM has 100 CPU shares: want 200") || r.m.state.Bandwidth.Quota != virt.Unlimited {
			t.Errorf("got %v, %+v", err, r.m.state.Bandwidth)
		}
	})
}

// vCPUs that cannot be taken back get no more together than they had, or were to have.
func TestUndoOfBandwidthWithVCPUsThatStay(t *testing.T) {
	for name, had := range map[string]time.Duration{"75%": 75 * time.Millisecond, "without a limit": virt.Unlimited} {
		synctest.Test(t, func(t *testing.T) {
			m := unwilling(t) // to use vCPUs
			m.guest.refuseGive = true
			m.state.Bandwidth.Quota = had
			r := newRig(m)
			w := r.m.to(gi, 4)
			w = formatBandwidth(100*time.Millisecond, 37500*time.Microsecond, 200)
			w.Generation, w.VCPUs = 1, 4
			report, err := r.run(t, w)
			now := r.m.state.Bandwidth
			told := err != nil && strings.Contains(err.Error(), "each vCPU may still run 37.5ms in 100ms: there are 4, and the 2 before might run ")
			if !told || r.m.state.VCPUs.Plugged != 4 || now.Quota != 37500*time.Microsecond || now.Shares != usual {
				t.Errorf("%s: got %v, %d vCPUs, %+v\n%s", name, err, r.m.state.VCPUs.Plugged, now, steps(report))
			}
		})
	}
}

// A guest that has not done what its balloon was told is told to leave it, and does not do it
// later, when limits may be lower.
func TestBalloonIsStopped(t *testing.T) {
	for _, to := range []uint64{gi, gi / 4} {
		synctest.Test(t, func(t *testing.T) {
			m := vm(t)
			m.state.Memory.Balloon, m.guest.balloonTo = gi/2, gi/2
			m.guest.refuseTake, m.guest.refuseGive = true, true
			r := newRig(m)
			report, err := r.run(t, m.to(to, 2))
			if err == nil || m.guest.balloonTo != gi/2 || !strings.Contains(steps(report), "<+ let the balloon leave the 512Mi to the guest") {
				t.Errorf("to %d: got %v, the balloon is told %d\n%s", to, err, m.guest.balloonTo, steps(report))
			}
			m.guest.refuseTake, m.guest.refuseGive = false, false
			w := m.to(gi/2, 2)
			w.Generation = 2
			if _, err := r.run(t, w); err != nil || m.state.Memory.Balloon != gi/2 || m.node.seen.ContainerMax != w.Limit {
				t.Errorf("to %d, and back: got %v, %d, limit %d", to, err, m.state.Memory.Balloon, m.node.seen.ContainerMax)
			}
		})
	}
}
