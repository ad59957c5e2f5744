package guard_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/lifecycle/host"
	"github.com/mooring-vm/mooring/lifecycle/registry"
)

// virt-handler lowers virtqemud to KubeVirt's formula before each call of the hook. Another check
// leaves that limit.
func TestRequireRaisesALoweredLimit(t *testing.T) {
	withBench(t, benchConfig{repair: true}, func(t *testing.T, b *bench) {
		b.kernel.Start(100, cgroup, same(5*gi))
		virtqemud := b.kernel.Start(123, cgroup, same(5*gi))
		for range 3 {
			if err := b.kernel.SetMemlock(virtqemud, same(2*gi)); err != nil {
				t.Fatal(err)
			}
			if err := b.guard.Require(t.Context(), "id"); err != nil {
				t.Fatal(err)
			}
			if got, _ := b.kernel.Memlock(virtqemud); got != same(5*gi) {
				t.Fatalf("limit %v, want 5Gi", got)
			}
		}
		if s := b.check(t).Settings[0]; s.Status != agentapi.StatusRepaired {
			t.Errorf("setting %+v, want repaired", s)
		}
		b.expectReasons(t, agentapi.ReasonLimitRepaired)
	})
}

// libvirt has lowered QEMU to its own formula. That is enough for a VM process.
func TestRequireLeavesLibvirtsLimit(t *testing.T) {
	withBench(t, benchConfig{repair: true}, func(t *testing.T, b *bench) {
		vm := b.withVM(same(4 * gi))
		b.registry.Update("id", func(l *registry.Launcher) {
			l.Given.VMLock = new(host.Limit(4 * gi))
		})
		if err := b.guard.Require(t.Context(), "id"); err != nil {
			t.Error(err)
		}
		if got, _ := b.kernel.Memlock(vm); got != same(4*gi) {
			t.Errorf("limit %v, want libvirt's 4Gi", got)
		}
		b.expectReasons(t)
	})
}

// Without a granted limit, and with a policy that only reports, the hook must hold no VM back.
func TestRequireChangesNothing(t *testing.T) {
	for name, c := range map[string]struct {
		repair bool
		change func(*registry.Launcher)
	}{
		"nothing granted": {true, func(l *registry.Launcher) { l.Given = registry.Given{} }},
		"report only":     {false, func(*registry.Launcher) {}},
	} {
		t.Run(name, func(t *testing.T) {
			withBench(t, benchConfig{repair: c.repair}, func(t *testing.T, b *bench) {
				b.registry.Update("id", c.change)
				b.kernel.Start(100, cgroup, same(5*gi))
				virtqemud := b.kernel.Start(123, cgroup, same(2*gi))
				if err := b.guard.Require(t.Context(), "id"); err != nil {
					t.Error(err)
				}
				if got, _ := b.kernel.Memlock(virtqemud); got != same(2*gi) {
					t.Errorf("limit %v, want it unchanged", got)
				}
				b.expectReasons(t)
			})
		})
	}
}

func TestRequireFails(t *testing.T) {
	for name, c := range map[string]struct {
		id      string
		prepare func(*bench)
		want    string
		gone    bool
	}{
		"repair refused": {"id", func(b *bench) {
			b.kernel.Start(100, cgroup, same(65536))
			b.kernel.BeforeSet = func(host.Process) error {
				return fmt.Errorf("prlimit: %w", syscall.EPERM)
			}
		}, "process 100 had 64Ki (hard 64Ki); repair failed: prlimit: operation not permitted",
			false},
		"unknown container": {"other", func(*bench) {}, "container other", true},
		"ended":             {"id", func(*bench) {}, "gone", true},
	} {
		t.Run(name, func(t *testing.T) {
			withBench(t, benchConfig{repair: true}, func(t *testing.T, b *bench) {
				c.prepare(b)
				err := b.guard.Require(t.Context(), c.id)
				if err == nil || !strings.Contains(err.Error(), c.want) {
					t.Errorf("error %v, want one with %q", err, c.want)
				}
				if errors.Is(err, host.ErrGone) != c.gone {
					t.Errorf("error %v is ErrGone: %t, want %t", err, !c.gone, c.gone)
				}
			})
		})
	}
}

// A slow guard must not hold a caller longer than its context. It finishes its check, and serves
// the next caller before its queue.
func TestRequireObeysTheContext(t *testing.T) {
	withBench(t, benchConfig{repair: true}, func(t *testing.T, b *bench) {
		b.kernel.Start(100, cgroup, same(65536))
		b.kernel.BeforeSet = func(host.Process) error {
			time.Sleep(3 * time.Second)
			return nil
		}
		for _, want := range []string{"has not finished", "is busy"} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			err := b.guard.Require(ctx, "id")
			cancel()
			if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), want) {
				t.Errorf("error %v, want a deadline and %q", err, want)
			}
		}
		b.guard.Enqueue("id")
		if err := b.guard.Require(t.Context(), "id"); err != nil {
			t.Error(err)
		}
	})
}
