package guard_test

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/api/policy"
	"github.com/mooring-vm/mooring/lifecycle/host"
	"github.com/mooring-vm/mooring/lifecycle/registry"
)

// withMaximum gives the launcher the policy's maximum, in a mode.
func (b *bench) withMaximum(maximum host.Limit, mode policy.Mode) {
	b.registry.Update("id", func(l *registry.Launcher) {
		l.Maximum, l.Mode = &maximum, string(mode)
	})
}

// virt-handler raises the limits of virtqemud and QEMU above the policy's maximum.
func TestGuardLowersRaisedLimits(t *testing.T) {
	withBench(t, benchConfig{enforce: true}, func(t *testing.T, b *bench) {
		vm := b.withVM(same(host.Unlimited))
		virtqemud := b.kernel.Start(102, cgroup, host.Rlimit{Soft: 5 * gi, Hard: host.Unlimited})
		b.withMaximum(16*gi, policy.Enforce)
		b.check(t)
		for p, want := range map[host.Process]host.Rlimit{
			vm: same(16 * gi), virtqemud: {Soft: 5 * gi, Hard: 16 * gi},
		} {
			if got, err := b.kernel.Memlock(p); got != want || err != nil {
				t.Errorf("limit of process %d: %+v, %v, want %+v", p.PID, got, err, want)
			}
		}
		b.expectReasons(t, agentapi.ReasonLimitAbove)
		want := "another program raised a memory lock of the launcher to unlimited, above the " +
			"16Gi that the node policy allows; lowered"
		if e := b.recorder.Events()[0]; e.Message != want || e.Type != agentapi.Warning {
			t.Errorf("event %+v, want a warning %q", e, want)
		}
		if got := b.granted(); got != 16*gi {
			t.Errorf("account %d, want 16Gi", got)
		}
	})
}

func TestGuardLeavesLimitsAboveTheMaximum(t *testing.T) {
	for name, c := range map[string]struct {
		enforce bool
		maximum host.Limit // 0: none
		mode    policy.Mode
		first   host.Limit // of the container's first process
		locked  uint64
		text    string // of the Event; empty: none
	}{
		"no explicit maximum":  {true, 0, policy.Enforce, 5 * gi, 0, ""},
		"observe":              {false, 16 * gi, policy.Observe, 5 * gi, 0, policy.Observing},
		"observed at creation": {true, 16 * gi, policy.Observe, 5 * gi, 0, policy.Observing},
		"observes meanwhile":   {false, 16 * gi, policy.Enforce, 5 * gi, 0, policy.Observing},
		"inherited":            {true, 16 * gi, policy.Enforce, 20 * gi, 0, ""},
		"locked":               {true, 16 * gi, policy.Enforce, 5 * gi, 17 * gi, "has locked more"},
	} {
		withBench(t, benchConfig{enforce: c.enforce}, func(t *testing.T, b *bench) {
			vm := b.withVM(same(20 * gi))
			b.kernel.Start(100, cgroup, same(c.first))
			b.kernel.SetLocked(vm.PID, c.locked)
			if c.maximum > 0 {
				b.withMaximum(c.maximum, c.mode)
			}
			b.check(t)
			if got, err := b.kernel.Memlock(vm); got != same(20*gi) || err != nil {
				t.Errorf("%s: limit %+v, %v, want it left", name, got, err)
			}
			events := b.recorder.Events()
			if len(events) > 0 != (c.text != "") || len(events) > 0 &&
				(events[0].Reason != agentapi.ReasonLimitAbove ||
					!strings.Contains(events[0].Message, c.text)) {
				t.Errorf("%s: events %+v, want one with %q", name, events, c.text)
			}
		})
	}
}

// A program raises the limit again and again. The guard lowers it each time, and writes one Event
// in ten minutes.
func TestGuardLimitsEventsAboveTheMaximum(t *testing.T) {
	withBench(t, benchConfig{enforce: true}, func(t *testing.T, b *bench) {
		vm := b.withVM(same(20 * gi))
		b.withMaximum(16*gi, policy.Enforce)
		for range 41 { // every 30 seconds for 20 minutes
			if err := b.kernel.SetMemlock(vm, same(20*gi)); err != nil {
				t.Fatal(err)
			}
			b.check(t)
			if got, err := b.kernel.Memlock(vm); got != same(16*gi) || err != nil {
				t.Fatalf("limit %+v, %v, want 16Gi", got, err)
			}
			time.Sleep(30 * time.Second)
		}
		above := agentapi.ReasonLimitAbove
		b.expectReasons(t, above, above, above)
	})
}

// For all limits: the guard changes none that is within the maximum or below the first process's,
// lowers the others to the maximum, and never below what a process has locked.
func TestGuardMaximumProperty(t *testing.T) {
	limits := []host.Limit{gi, 5 * gi, 16 * gi, 16*gi + 1, 20 * gi, host.Unlimited}
	rapid.Check(t, func(rt *rapid.T) {
		first := rapid.SampledFrom(limits).Draw(rt, "first")
		soft, hard := rapid.SampledFrom(limits).Draw(rt, "soft"), rapid.SampledFrom(limits).Draw(rt,
			"hard")
		was := host.Rlimit{Soft: min(soft, hard), Hard: hard}
		locked := rapid.SampledFrom([]host.Limit{0, 16 * gi, 17 * gi}).Draw(rt, "locked")
		locked = min(locked, was.Soft)
		withBench(t, benchConfig{enforce: true}, func(t *testing.T, b *bench) {
			vm := b.withVM(was)
			b.kernel.Start(100, cgroup, same(first))
			b.kernel.SetLocked(vm.PID, uint64(locked))
			b.withMaximum(16*gi, policy.Enforce)
			b.check(t)
			want := was
			if hard > 16*gi && hard > first && locked <= 16*gi {
				want = host.Rlimit{Soft: min(was.Soft, 16*gi), Hard: 16 * gi}
			}
			if got, err := b.kernel.Memlock(vm); got != want || err != nil {
				t.Errorf("first %s, %+v, locked %s: now %+v, %v, want %+v", first, was, locked, got,
					err, want)
			}
		})
	})
}

// The policy's maximum has grown since the creation of the launcher, and the agent granted its VM
// more. The guard keeps the grant, lowers the VM process to it, and other processes to the maximum.
func TestGuardKeepsAGrantAboveTheMaximum(t *testing.T) {
	withBench(t, benchConfig{enforce: true, repair: true}, func(t *testing.T, b *bench) {
		vm := b.withVM(same(32 * gi))
		other := b.kernel.Start(102, cgroup, same(20*gi))
		b.withMaximum(16*gi, policy.Enforce)
		b.registry.Update("id", func(l *registry.Launcher) { l.SetLock(vm, 32*gi) })
		for _, raised := range []host.Limit{32 * gi, host.Unlimited} {
			if err := b.kernel.SetMemlock(vm, same(raised)); err != nil {
				t.Fatal(err)
			}
			b.check(t)
			for p, want := range map[host.Process]host.Limit{vm: 32 * gi, other: 16 * gi} {
				if got, err := b.kernel.Memlock(p); got != same(want) || err != nil {
					t.Errorf("raised to %s: limit of process %d: %+v, %v, want %s", raised, p.PID,
						got, err, want)
				}
			}
		}
		b.expectReasons(t, agentapi.ReasonLimitAbove)
	})
}

// A hard limit up to the first process's was not raised.
func TestGuardLeavesAnInheritedHardLimit(t *testing.T) {
	withBench(t, benchConfig{enforce: true}, func(t *testing.T, b *bench) {
		inherited := host.Rlimit{Soft: 5 * gi, Hard: 20 * gi}
		vm := b.withVM(inherited)
		b.kernel.Start(100, cgroup, inherited)
		b.withMaximum(16*gi, policy.Enforce)
		b.check(t)
		if got, err := b.kernel.Memlock(vm); got != inherited || err != nil {
			t.Errorf("limit %+v, %v, want %+v", got, err, inherited)
		}
		b.expectReasons(t)
	})
}
