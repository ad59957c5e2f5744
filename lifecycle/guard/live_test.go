package guard_test

import (
	"strings"
	"testing"

	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/lifecycle/host"
	"github.com/mooring-vm/mooring/lifecycle/registry"
)

// withVM adds a VM process with this limit, and a ceiling of 16Gi, to the launcher.
func (b *bench) withVM(lock host.Rlimit) host.Process {
	b.kernel.Start(100, cgroup, same(5*gi))
	vm := b.kernel.Start(101, cgroup, lock)
	b.registry.Update("id", func(l *registry.Launcher) {
		ceiling := host.Limit(16 * gi)
		l.Ceiling, l.VMs = &ceiling,
			[]agentapi.VM{{PID: vm.PID, StartTime: vm.Ticks(), State: agentapi.VMRunning}}
	})
	return vm
}

// A limit granted by a resize counts in the account until the end of the process.
func TestVMLockIsCounted(t *testing.T) {
	withBench(t, benchConfig{}, func(t *testing.T, b *bench) {
		vm := b.withVM(same(5 * gi))
		for _, c := range []struct{ lock, want host.Limit }{{8 * gi, 8 * gi}, {6 * gi, 6 * gi},
			{3 * gi, 5 * gi}, {9 * gi, 9 * gi}} {
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
			l.SetMemoryRequirement(vm, 3)
			l.VMs = nil
		})
		if l, _ := b.registry.Find("id"); l.Live != nil || l.MemoryRequirement() != 0 ||
			b.granted() != 5*gi {
			t.Errorf("live limits of an ended VM: %+v, account %d", l.Live, b.granted())
		}
	})
}

// The guard repairs a limit granted by a resize in the VM process, but not in its launcher.
func TestGuardRepairsVMLock(t *testing.T) {
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
			t.Errorf("limit of the VM process: %+v, %v, want 8Gi", got, err)
		}
	})
}

// Without repair the guard reports a VM process below its limit.
func TestGuardReportsVMLock(t *testing.T) {
	withBench(t, benchConfig{}, func(t *testing.T, b *bench) {
		vm := b.withVM(same(6 * gi))
		b.registry.Update("id", func(l *registry.Launcher) { l.SetLock(vm, 8*gi) })
		s := b.check(t).Settings[0]
		if want := "less than 8Gi: process 101 had 6Gi"; s.Status != agentapi.StatusDiffers ||
			!strings.Contains(s.Message, want) {
			t.Errorf("setting = %+v, want differs, with %q", s, want)
		}
	})
}

// A restarted agent adopts limits raised by an earlier one, up to the ceiling. A limit inherited
// from the launcher is not a raised one.
func TestGuardAdoptsRaisedVMLock(t *testing.T) {
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

// The node's libvirt raises the limit of a running VM for each plugged device, and lowers it again
// with the last one. The account follows, up to the ceiling, and the guard leaves libvirt's limit.
func TestGuardFollowsLibvirtsDevices(t *testing.T) {
	withBench(t, benchConfig{repair: true}, func(t *testing.T, b *bench) {
		vm := b.withVM(same(5 * gi))
		for _, step := range []struct {
			event     string
			has       host.Limit
			grant     host.Limit // by a resize before; 0: none
			charged   int64
			remaining host.Limit
		}{
			{"start", 5 * gi, 0, 5 * gi, 5 * gi},
			{"first device", 9 * gi, 0, 9 * gi, 9 * gi},
			{"second device", 13 * gi, 0, 13 * gi, 13 * gi},
			{"third device, beyond the ceiling", 17 * gi, 0, 16 * gi, 17 * gi},
			{"no device", 5 * gi, 0, 5 * gi, 5 * gi},
			{"resize", 6 * gi, 6 * gi, 6 * gi, 6 * gi},
			{"device after a resize", 10 * gi, 0, 10 * gi, 10 * gi},
			{"too low after a resize", 5 * gi, 0, 6 * gi, 6 * gi},
		} {
			if err := b.kernel.SetMemlock(vm, same(step.has)); err != nil {
				t.Fatal(err)
			}
			if step.grant > 0 {
				b.registry.Update("id", func(l *registry.Launcher) { l.SetLock(vm, step.grant) })
			}
			b.check(t)
			if got := b.granted(); got != step.charged {
				t.Errorf("%s: account %d, want %d", step.event, got, step.charged)
			}
			if got, err := b.kernel.Memlock(vm); got != same(step.remaining) || err != nil {
				t.Errorf("%s: limit %+v, %v, want %s", step.event, got, err, step.remaining)
			}
		}
	})
}

// libvirt lowers the limit of a VM with devices to its own formula, below the launcher's. The guard
// repairs only a lower limit, or one that a resize granted.
func TestGuardLeavesLibvirtsLimit(t *testing.T) {
	for name, c := range map[string]struct {
		vm, granted host.Limit // granted by a resize; 0: none
		want        host.Limit
		status      agentapi.Status
	}{
		"libvirt's":               {4 * gi, 0, 4 * gi, agentapi.StatusApplied},
		"less than libvirt's":     {4*gi - 1, 0, 4 * gi, agentapi.StatusRepaired},
		"less than after a raise": {4 * gi, 6 * gi, 6 * gi, agentapi.StatusRepaired},
	} {
		withBench(t, benchConfig{repair: true}, func(t *testing.T, b *bench) {
			vm := b.withVM(same(c.vm))
			b.registry.Update("id", func(l *registry.Launcher) {
				l.Given.VMLock = new(host.Limit(4 * gi))
				if c.granted > 0 {
					l.SetLock(vm, c.granted)
				}
			})
			if s := b.check(t).Settings[0]; s.Status != c.status {
				t.Errorf("%s: setting %+v, want %s", name, s, c.status)
			}
			if got, err := b.kernel.Memlock(vm); got != same(c.want) || err != nil {
				t.Errorf("%s: limit %+v, %v, want %s", name, got, err, c.want)
			}
		})
	}
}
