package resize_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mooring-vm/mooring/shim/resize"
	"github.com/mooring-vm/mooring/shim/resize/target"
	"github.com/mooring-vm/mooring/shim/virt"
)

// A rollback never makes another resource larger than it was.
func TestRollbackNeverExceedsBoth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(vm(t).virtioMem(2*gi, 0))
		r.m.afterChange = func() {
			if r.m.state.Memory.Devices[0].Requested == gi {
				r.m.guest.portionLeft = gi // and no more after it
				r.m.calls.faults = map[int]fault{
					r.m.calls.n + 2: refuseBefore,
				} // the confirming observation
			}
		}
		report, err := r.run(t, r.m.target(2*gi, 1))
		want := "the guest would have 2Gi: want at most 1Gi"
		if err == nil || !strings.Contains(err.Error(), want) || r.m.state.VCPUs.Plugged != 1 {
			t.Errorf("got %v, want %q\n%s", err, want, stepLog(report))
		}
	})
	synctest.Test(t, func(t *testing.T) {
		r := newRig(vm(t).virtioMem(2*gi, gi))
		r.m.afterChange = func() {
			r.m.guest.refuseGive = r.m.state.VCPUs.Plugged == 6
			r.m.guest.refuseTake = r.m.guest.refuseGive
		}
		report, err := r.run(t, r.m.target(gi, 6))
		want := "the guest would have 6 vCPUs: want at most 2"
		if err == nil || !strings.Contains(err.Error(), want) || report.Actual.Memory != gi {
			t.Errorf("got %v, want %q\n%s", err, want, stepLog(report))
		}
	})
}

// A DIMM that stays plugged keeps its memory lock.
func TestRollbackKeepsLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(vm(t).passthrough())
		r.m.guest.refuseGive, r.m.guest.refuseTake = true, true
		report, err := r.run(t, r.m.target(2*gi, 4))
		if err == nil || report.Actual.Lock != 3*gi || report.Actual.Memory != 2*gi {
			t.Errorf("got %v, %+v\n%s", err, report.Actual, stepLog(report))
		}
	})
}

// QEMU may have locked more than libvirt's formula counts.
func TestLockNotBelowLockedMemory(t *testing.T) {
	m := vm(t).dimm(gi).passthrough().withLimits()
	is := observe(t, m)
	is.Limits.Locked = is.Limits.Lock - mi
	plan, err := resize.MakePlan(is, m.target(gi, 2), resize.Policy{Shrink: true})
	if err != nil {
		t.Fatal(err)
	}
	last := descriptions(plan.Steps)[len(plan.Steps)-1]
	if last != "lower QEMU's memory-lock limit from 3Gi to 3071Mi" {
		t.Errorf("got %q", last)
	}
}

// A launcher's own limit above libvirt's requirement is the lowest limit of the lock.
func TestLockNotBelowFloor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(vm(t).passthrough())
		r.m.node.limits.Lock, r.m.node.limits.Floor = 2560*mi, 2560*mi
		for _, c := range []struct{ memory, lock uint64 }{
			{gi, 2560 * mi},
			{2 * gi, 3 * gi},
			{gi, 2560 * mi},
		} {
			report, err := r.run(t, r.m.target(c.memory, 2))
			if err != nil || report.Actual.Memory != c.memory || report.Actual.Lock != c.lock {
				t.Errorf(
					"got %v, %+v, want a lock of %d\n%s", err, report.Actual, c.lock,
					stepLog(report),
				)
			}
		}
	})
}

// The rollback of a raised lock respects the launcher's own limit.
func TestLockRollbackKeepsFloor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(vmIgnoringVCPUs(t).passthrough())
		r.m.node.limits.Floor = 2560 * mi // an administrator has lowered the limit
		report, err := r.run(t, r.m.target(2*gi, 4))
		if err == nil || report.Actual.Memory != gi || report.Actual.Lock != 2560*mi {
			t.Errorf("got %v, %+v\n%s", err, report.Actual, stepLog(report))
		}
	})
}

// The locked memory may grow between plan and step.
func TestLockedMemoryGrows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(vm(t).dimm(gi).passthrough())
		r.m.afterChange = func() { r.m.node.minLocked = 2560 * mi }
		report, err := r.run(t, r.m.target(gi, 2))
		if err != nil || report.Actual.Lock != 2560*mi {
			t.Errorf("got %v, %+v\n%s", err, report.Actual, stepLog(report))
		}
	})
}

// Another program lowers the container's limit just before the guest grows.
func TestLimitLoweredBeforeGrowth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(vm(t).virtioMem(2*gi, 0))
		w := r.m.target(2*gi, 2)
		w.Bandwidth = &target.Bandwidth{
			Period: 100 * time.Millisecond,
			Quota:  50 * time.Millisecond,
		}
		w.VCPUs = 1 // the unplug is the first change
		r.m.afterChange = func() { r.m.node.lowerLimit = true }
		report, err := r.run(t, w)
		if err == nil ||
			!strings.Contains(
				err.Error(),
				"memory.max is 1130Mi for the pod and 1098Mi for the container: want at least "+
					"2132Mi",
			) ||
			report.Actual.Memory != gi ||
			report.Actual.VCPUs != 1 {
			t.Errorf("got %v, %+v\n%s", err, report.Actual, stepLog(report))
		}
	})
}

// The runner does not wait after a refused call.
func TestRefusedOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(vm(t))
		r.m.refuseErr = errRefused
		started := time.Now()
		_, err := r.run(t, r.m.target(gi, 1))
		if !errors.Is(err, errRefused) || time.Since(started) > 0 {
			t.Errorf("got %v after %s", err, time.Since(started))
		}
		r.m.refuseErr = virt.ErrUnconfirmed // the guest may follow later
		report, err := r.run(t, r.m.target(gi, 1))
		if !errors.Is(err, virt.ErrUnconfirmed) || time.Since(started) < 30*time.Second ||
			report.Actual.VCPUs != 2 {
			t.Errorf("got %v after %s, %+v", err, time.Since(started), report.Actual)
		}
	})
}

// A rollback restores bandwidth and shares in one call, and only the values that were set.
func TestBandwidthRollback(t *testing.T) {
	half := &target.Bandwidth{Period: 100 * time.Millisecond, Quota: 50 * time.Millisecond}
	for _, c := range []struct {
		bandwidth *target.Bandwidth
		shares    int
		want      string // the last step
	}{
		{
			half,
			200,
			"<+ change the CPU bandwidth of each vCPU from 50ms per 100ms to unlimited and the " +
				"CPU shares from 200 to 100",
		},
		{half, 0, "<+ change the CPU bandwidth of each vCPU from 50ms per 100ms to unlimited"},
		{nil, 200, "<+ change the CPU shares from 200 to 100"},
	} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(vmIgnoringVCPUs(t)) // the later vCPU step fails
			w := r.m.target(gi, 4)
			w.Bandwidth, w.CPUShares = c.bandwidth, c.shares
			before := r.m.state.Bandwidth
			report, err := r.run(t, w)
			told := strings.Split(stepLog(report), "\n")
			if err == nil || told[len(told)-1] != c.want || r.m.state.Bandwidth != before {
				t.Errorf(
					"got %v, %+v, want %q last in\n%s", err, r.m.state.Bandwidth, c.want,
					stepLog(report),
				)
			}
		})
	}
}

// A value that libvirt accepted but did not set is a failure.
func TestSharesAreVerified(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(vm(t))
		r.m.afterChange = func() { r.m.state.Bandwidth.Shares = defaultShares }
		_, err := r.run(t, bandwidthTarget(100*time.Millisecond, 50*time.Millisecond, 200))
		if err == nil || !strings.Contains(err.Error(), "the VM has 100 CPU shares: want 200") ||
			r.m.state.Bandwidth.Quota != virt.Unlimited {
			t.Errorf("got %v, %+v", err, r.m.state.Bandwidth)
		}
	})
}

// vCPUs that stay plugged get no more bandwidth in total than before or desired.
func TestBandwidthRollbackWithExtraVCPUs(t *testing.T) {
	for name, had := range map[string]time.Duration{
		"75%":       75 * time.Millisecond,
		"unlimited": virt.Unlimited,
	} {
		synctest.Test(t, func(t *testing.T) {
			m := vmIgnoringVCPUs(t) // the guest uses no new vCPU
			m.guest.refuseGive = true
			m.state.Bandwidth.Quota = had
			r := newRig(m)
			w := bandwidthTarget(100*time.Millisecond, 37500*time.Microsecond, 200)
			w.Generation, w.VCPUs = 1, 4
			report, err := r.run(t, w)
			now := r.m.state.Bandwidth
			told := err != nil &&
				strings.Contains(
					err.Error(),
					"the CPU bandwidth of each vCPU stays 37.5ms per 100ms: 4 vCPUs are plugged, "+
						"and 2 vCPUs had ",
				)
			if !told || r.m.state.VCPUs.Plugged != 4 || now.Quota != 37500*time.Microsecond ||
				now.Shares != defaultShares {
				t.Errorf(
					"%s: got %v, %d vCPUs, %+v\n%s", name, err, r.m.state.VCPUs.Plugged, now,
					stepLog(report),
				)
			}
		})
	}
}

// A rollback withdraws an unfinished balloon request, so that the guest does not follow it later.
func TestBalloonStops(t *testing.T) {
	for _, to := range []uint64{gi, gi / 4} {
		synctest.Test(t, func(t *testing.T) {
			m := vm(t)
			m.state.Memory.Balloon, m.guest.balloonTarget = gi/2, gi/2
			m.guest.refuseTake, m.guest.refuseGive = true, true
			r := newRig(m)
			report, err := r.run(t, m.target(to, 2))
			if err == nil || m.guest.balloonTarget != gi/2 ||
				!strings.Contains(stepLog(report), "<+ keep the balloon at 512Mi for the guest") {
				t.Errorf(
					"to %d: got %v, balloon target %d\n%s", to, err, m.guest.balloonTarget,
					stepLog(report),
				)
			}
			m.guest.refuseTake, m.guest.refuseGive = false, false
			w := m.target(gi/2, 2)
			w.Generation = 2
			_, err = r.run(t, w)
			if err != nil || m.state.Memory.Balloon != gi/2 ||
				m.node.limits.ContainerMax != w.Limit {
				t.Errorf(
					"to %d, and back: got %v, %d, limit %d", to, err, m.state.Memory.Balloon,
					m.node.limits.ContainerMax,
				)
			}
		})
	}
}

// A new target ends a rollback that waits for the guest.
func TestNewTargetEndsRollback(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(vm(t).virtioMem(2*gi, 0))
		r.m.afterChange = func() {
			r.m.guest.refuseGive = r.m.guest.refuseTake // after the rollback of the vCPUs
			r.m.guest.refuseTake = r.m.guest.refuseTake || r.m.state.VCPUs.Plugged == 4
		}
		first, later := r.m.target(2*gi, 4), r.m.target(2*gi, 2)
		later.Generation, r.m.node.desiredLimit = first.Generation+1, first.Limit
		started := time.Now()
		report, err := r.Run(context.Background(), func() target.Target {
			if time.Since(started) < 40*time.Second { // vCPUs fail after 30 seconds
				return first
			}
			r.m.node.desiredLimit = later.Limit
			return later
		})
		if err != nil || report.Target.Generation != later.Generation ||
			report.Actual.Memory != 2*gi || !strings.Contains(stepLog(report), "<- ") {
			t.Errorf("got %v, %+v\n%s", err, report.Actual, stepLog(report))
		}
	})
}
