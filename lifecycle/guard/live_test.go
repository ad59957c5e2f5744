package guard_test

import (
	"strings"
	"testing"

	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/lifecycle/host"
	"github.com/mooring-vm/mooring/lifecycle/registry"
)

// withVM has the launcher of a bench run, with a VM process that has the lock and a
// ceiling of 16Gi.
func (b *bench) withVM(lock host.Rlimit) host.Process {
	b.kernel.Start(100, cgroup, same(5*gi))
	vm := b.kernel.Start(101, cgroup, lock)
	b.registry.Update("id", func(l *registry.Launcher) {
		ceiling := host.Limit(16 * gi)
		l.Ceiling, l.VMs = &ceiling, []agentapi.VM{{PID: vm.PID, StartTime: vm.StartTime, State: agentapi.VMRunning}}
	})
	return vm
}

// What a VM process may lock by a resize is counted, and ends with it.
func TestVMLockIsCounted(t *testing.T) {
	withBench(t, benchConfig{}, func(t *testing.T, b *bench) {
		vm := b.withVM(same(5 * gi))
		for _, c := range []struct{ lock, want host.Limit }{{8 * gi, 8 * gi}, {6 * gi, 6 * gi}, {3 * gi, 5 * gi}, {9 * gi, 9 * gi}} {
			b.registry.Update("id", func(l *registry.Launcher) { l.SetLock(vm, c.lock) })
			if got := b.granted(); host.Limit(got) != c.want {
				t.Errorf("account %d with a lock of %s, want %s", got, c.lock, c.want)
			}
		}
		b.registry.Update("id", func(l *registry.Launcher) { l.SetLock(vm, host.Unlimited) })
		if a := b.registry.Account(); a.Granted != 0 || a.Unlimited != 1 {
			t.Errorf("account %+v, want one without limit", a)
		}
		b.registry.Update("id", func(l *registry.Launcher) {
			l.SetNeed(vm, 3)
			l.VMs = nil
		})
		if l, _ := b.registry.Find("id"); l.Live != nil || l.Needs() != 0 || b.granted() != 5*gi {
			t.Errorf("%+v is left of a VM that is gone, account %d", l.Live, b.granted())
		}
	})
}

// A VM process is held to what it was given by a resize, and its launcher is not.
func TestGuardHoldsVMToItsLock(t *testing.T) {
	withBench(t, benchConfig{repair: true}, func(t *testing.T, b *bench) {
		vm := b.withVM(same(8 * gi))
		b.registry.Update("id", func(l *registry.Launcher) { l.SetLock(vm, 8*gi) })
		if s := b.check(t).Settings[0]; s.Status != agentapi.StatusApplied {
			t.Errorf("setting = %+v, want applied", s)
		}
		if err := b.kernel.SetMemlock(vm, same(6*gi)); err != nil {
			t.Fatal(err)
		}
		if s := b.check(t).Settings[0]; s.Status != agentapi.StatusRepaired {
			t.Errorf("setting = %+v, want repaired", s)
		}
		if got, err := b.kernel.Memlock(vm); got != same(8*gi) || err != nil {
			t.Errorf("the VM may lock %+v, %v, want 8Gi", got, err)
		}
	})
}

// Without repair it is told what the VM process lacks, of what it was given.
func TestGuardReportsVMLock(t *testing.T) {
	withBench(t, benchConfig{}, func(t *testing.T, b *bench) {
		vm := b.withVM(same(6 * gi))
		b.registry.Update("id", func(l *registry.Launcher) { l.SetLock(vm, 8*gi) })
		s := b.check(t).Settings[0]
		if want := "less than the 8Gi given: process 101 had 6Gi"; s.Status != agentapi.StatusDiffers || !strings.Contains(s.Message, want) {
			t.Errorf("setting = %+v, want differs, with %q", s, want)
		}
	})
}

// An agent that was started again learns what an earlier one has raised, up to the
// ceiling. What a VM has from its launcher is nothing that was raised.
func TestGuardLearnsVMLock(t *testing.T) {
	for name, c := range map[string]struct {
		vm, launcher host.Limit
		want         int64
	}{
		"raised":             {8 * gi, 5 * gi, 8 * gi},
		"beyond the ceiling": {host.Unlimited, 5 * gi, 16 * gi},
		"from its launcher":  {host.Unlimited, host.Unlimited, 5 * gi},
		"as given":           {5 * gi, 5 * gi, 5 * gi},
	} {
		withBench(t, benchConfig{repair: true}, func(t *testing.T, b *bench) {
			b.withVM(same(c.vm))
			b.kernel.Start(100, cgroup, same(c.launcher))
			b.check(t)
			if got := b.granted(); got != c.want {
				t.Errorf("%s: account %d, want %d", name, got, c.want)
			}
		})
	}
}
