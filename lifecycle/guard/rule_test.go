package guard_test

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/lifecycle/host"
	"github.com/mooring-vm/mooring/lifecycle/registry"
)

// The container's first process has the granted limit, so the lower limit of a child was set on
// purpose. The guard leaves it. (VM processes of the tie are not part of this test.)
func TestGuardKeepsLimitLoweredAfterTheStart(t *testing.T) {
	for _, repair := range []bool{false, true} {
		withBench(t, benchConfig{repair: repair}, func(t *testing.T, b *bench) {
			b.kernel.Start(100, cgroup, same(5*gi))
			qemu := b.kernel.Start(123, cgroup, same(2*gi))
			s := b.check(t).Settings[0]
			if s.Status != agentapi.StatusApplied || s.Observed != "5Gi" {
				t.Errorf("setting = %+v, want applied, seen 5Gi", s)
			}
			want := "1 of 2 processes may lock less than 5Gi, for example process 123 with 2Gi: " +
				"lowered after the start, left unchanged"
			if s.Message != want {
				t.Errorf("message = %q, want %q", s.Message, want)
			}
			if got, _ := b.kernel.Memlock(qemu); got != same(2*gi) {
				t.Errorf("limit was changed to %v", got)
			}
			b.expectReasons(t)
			b.kernel.Exit(123)
			if s := b.check(t).Settings[0]; s.Message != "" {
				t.Errorf("message after the exit of process 123 = %q, want none", s.Message)
			}
		})
	}
}

// If the first process lacks the limit, all processes have inherited too little.
func TestGuardRepairsAllIfTheFirstProcessLacksTheLimit(t *testing.T) {
	for name, first := range map[string]func(*bench){
		"has less":             func(b *bench) { b.kernel.Start(100, cgroup, same(65536)) },
		"is gone":              func(*bench) {},
		"is in another cgroup": func(b *bench) { b.kernel.Start(100, "/other", same(5*gi)) },
	} {
		t.Run(name, func(t *testing.T) {
			withBench(t, benchConfig{repair: true}, func(t *testing.T, b *bench) {
				// of an earlier check
				b.registry.Update("id", func(l *registry.Launcher) { l.Cgroup = cgroup })
				first(b)
				child := b.kernel.Start(101, cgroup, same(65536))
				if s := b.check(t).Settings[0]; s.Status != agentapi.StatusRepaired {
					t.Errorf("setting = %+v, want repaired", s)
				}
				if got, _ := b.kernel.Memlock(child); got != same(5*gi) {
					t.Errorf("limit = %v, want 5Gi", got)
				}
			})
		})
	}
}

// The first process has the limit, but lacked it at an earlier check. Its children inherited the
// lower limit.
func TestGuardRemembersMissingLimit(t *testing.T) {
	for _, repair := range []bool{false, true} {
		withBench(t, benchConfig{repair: repair}, func(t *testing.T, b *bench) {
			first := b.kernel.Start(100, cgroup, same(65536))
			b.check(t)
			if err := b.kernel.SetMemlock(first, same(5*gi)); err != nil {
				t.Fatal(err)
			}
			child := b.kernel.Start(101, cgroup, same(65536))
			want := map[bool]agentapi.Status{false: agentapi.StatusDiffers,
				true: agentapi.StatusRepaired}[repair]
			if s := b.check(t).Settings[0]; s.Status != want {
				t.Errorf("setting = %+v, want %s", s, want)
			}
			if got, _ := b.kernel.Memlock(child); repair && got != same(5*gi) {
				t.Errorf("limit = %v, want 5Gi", got)
			}
		})
	}
}

// The first process is raised last. If the agent ends before, the next one finds what is missing.
func TestGuardRaisesTheFirstProcessLast(t *testing.T) {
	withBench(t, benchConfig{repair: true}, func(t *testing.T, b *bench) {
		var raised []int
		b.kernel.BeforeSet = func(p host.Process) error {
			raised = append(raised, p.PID)
			return nil
		}
		for pid := 100; pid < 103; pid++ {
			b.kernel.Start(pid, cgroup, same(65536))
		}
		b.check(t)
		if len(raised) != 3 || raised[2] != 100 {
			t.Errorf("raised %v, want 100 last of three", raised)
		}
	})
}

// A VM process lacked its limit, and the first process never did. The guard leaves the lower limit
// of another child, which was set on purpose, as virt-handler sets that of virtqemud.
func TestGuardKeepsLoweredLimitBesideAVM(t *testing.T) {
	for _, repair := range []bool{false, true} {
		withBench(t, benchConfig{repair: repair}, func(t *testing.T, b *bench) {
			vm := b.withVM(same(6 * gi))
			manager := b.kernel.Start(102, cgroup, same(2*gi))
			b.registry.Update("id", func(l *registry.Launcher) { l.SetLock(vm, 8*gi) })
			b.check(t)
			if err := b.kernel.SetMemlock(vm, same(8*gi)); err != nil {
				t.Fatal(err)
			}
			want := map[bool]agentapi.Status{false: agentapi.StatusApplied,
				true: agentapi.StatusRepaired}[repair]
			if s := b.check(t).Settings[0]; s.Status != want {
				t.Errorf("setting = %+v, want %s", s, want)
			}
			if got, _ := b.kernel.Memlock(manager); got != same(2*gi) {
				t.Errorf("the limit of process 102 was changed to %v", got)
			}
		})
	}
}

// A program lowers the first process's limit again and again. The guard repairs it each time and
// writes one Event in ten minutes.
func TestGuardLimitsRepairEvents(t *testing.T) {
	withBench(t, benchConfig{repair: true}, func(t *testing.T, b *bench) {
		for i := range 61 { // every 30 seconds for half an hour
			b.kernel.Start(100, cgroup, same(65536))
			b.kernel.Start(101+i, cgroup, same(65536))
			if s := b.check(t).Settings[0]; !strings.Contains(s.Message, "raised with prlimit") {
				t.Fatalf("setting = %+v, want it repaired each time", s)
			}
			time.Sleep(30 * time.Second)
		}
		var texts []string
		for _, e := range b.recorder.Events() {
			texts = append(texts, e.Message)
		}
		event := "processes of the launcher may lock less than 5Gi; raised with prlimit"
		if diff := cmp.Diff([]string{event, event, event, event}, texts); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
	})
}

func TestGuardEventNamesNoPID(t *testing.T) {
	withBench(t, benchConfig{repair: true}, func(t *testing.T, b *bench) {
		b.kernel.BeforeSet = func(p host.Process) error {
			return fmt.Errorf("prlimit of process %d: %w", p.PID, syscall.EPERM)
		}
		b.kernel.Start(100, cgroup, same(65536))
		b.check(t)
		want := "processes of the launcher may lock less than 5Gi; repair failed: operation not " +
			"permitted"
		if got := b.recorder.Events()[0].Message; got != want {
			t.Errorf("event = %q, want %q", got, want)
		}
	})
}
