package shutdown_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mooring-vm/mooring/shim/shutdown"
	"github.com/mooring-vm/mooring/shim/virt"
	"github.com/mooring-vm/mooring/shim/virt/virttest"
)

// hanging is a domain of which some calls are answered only when their context is done, or
// not before a while has passed.
type hanging struct {
	*virttest.Domain
	calls map[string]time.Duration // for how long; 0: it does not hang

	mu    sync.Mutex
	asked []string
	open  map[string]int // calls that hang now
	most  int            // of one kind
}

func (h *hanging) hang(ctx context.Context, what string) error {
	h.mu.Lock()
	if what != "phase" {
		h.asked = append(h.asked, what)
	}
	h.open[what]++
	h.most = max(h.most, h.open[what])
	h.mu.Unlock()
	defer func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.open[what]--
	}()
	if h.calls[what] == 0 {
		return nil
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(h.calls[what]):
		return nil
	}
}

func (h *hanging) Phase(ctx context.Context) (virt.Phase, error) {
	if err := h.hang(ctx, "phase"); err != nil {
		return "", err
	}
	return h.Domain.Phase(ctx)
}

func (h *hanging) Shutdown(ctx context.Context, how virt.Shutdown) error {
	if err := h.hang(ctx, string(how)); err != nil {
		return err
	}
	return h.Domain.Shutdown(ctx, how)
}

func (h *hanging) Destroy(ctx context.Context) error {
	if err := h.hang(ctx, "destroy"); err != nil {
		return err
	}
	return h.Domain.Destroy(ctx)
}

// TestLibvirtHangs: neither the grace period, nor what shortens it, nor the next way waits
// for an answer, and there is never a second call beside one that hangs.
func TestLibvirtHangs(t *testing.T) {
	const ever = time.Hour
	both := []shutdown.Way{{How: virt.ACPI, Within: 12 * time.Second}, {How: virt.GuestAgent}}
	for name, tt := range map[string]struct {
		calls  map[string]time.Duration
		ways   []shutdown.Way
		sooner time.Duration
		want   shutdown.Outcome
		asked  []string
		took   time.Duration
	}{
		"asked":               {map[string]time.Duration{"acpi": ever}, nil, 0, shutdown.Destroyed, []string{"acpi", "destroy"}, 30 * time.Second},
		"asked, and hurried":  {map[string]time.Duration{"acpi": ever}, nil, 8 * time.Second, shutdown.Destroyed, []string{"acpi", "destroy"}, 8 * time.Second},
		"asked, for a while":  {map[string]time.Duration{"acpi": 14 * time.Second}, nil, 0, shutdown.Ended, []string{"acpi"}, 14 * time.Second},
		"asked, and two ways": {map[string]time.Duration{"acpi": ever}, both, 0, shutdown.Ended, []string{"acpi", "guest-agent"}, 12 * time.Second},
		"looked at":           {map[string]time.Duration{"phase": ever}, nil, 0, shutdown.Ended, []string{"acpi", "acpi"}, 5 * time.Second},
		"asked and looked at": {map[string]time.Duration{"acpi": ever, "phase": ever}, nil, 0, shutdown.Destroyed, []string{"acpi", "destroy", "destroy"}, 35 * time.Second},
		"all, and destroyed late": {map[string]time.Duration{"acpi": ever, "phase": ever, "destroy": 12 * time.Second}, nil, 0, shutdown.Destroyed,
			[]string{"acpi", "destroy", "destroy"}, 57 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fake := virttest.New(virt.State{Name: "vm", Phase: virt.Running})
				d := &hanging{Domain: fake.First(), calls: tt.calls, open: map[string]int{}}
				began, o := time.Now(), shutdown.Options{Ways: tt.ways}
				if tt.sooner > 0 {
					sooner := make(chan time.Time, 1)
					sooner <- began.Add(tt.sooner)
					o.Sooner = sooner
				}
				got, err := shutdown.Run(t.Context(), d, o)
				if took := time.Since(began); err != nil || got != tt.want || took != tt.took {
					t.Errorf("outcome %q, error %v, took %s, want %q in %s", got, err, took, tt.want, tt.took)
				}
				if !slices.Equal(d.asked, tt.asked) || d.most != 1 || d.open["acpi"] != 0 {
					t.Errorf("asked %v, want %v; %d at once; left behind %v", d.asked, tt.asked, d.most, d.open)
				}
			})
		})
	}
}
