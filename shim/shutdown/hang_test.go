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
type hangingDomain struct {
	*virttest.Domain
	delays map[string]time.Duration // for how long; 0: it does not hang

	mu       sync.Mutex
	requests []string
	open     map[string]int // calls that hang now
	maxOpen  int            // of one kind
}

func (h *hangingDomain) hang(ctx context.Context, call string) error {
	h.mu.Lock()
	if call != "phase" {
		h.requests = append(h.requests, call)
	}
	h.open[call]++
	h.maxOpen = max(h.maxOpen, h.open[call])
	h.mu.Unlock()
	defer func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.open[call]--
	}()
	if h.delays[call] == 0 {
		return nil
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(h.delays[call]):
		return nil
	}
}

func (h *hangingDomain) Phase(ctx context.Context) (virt.Phase, error) {
	if err := h.hang(ctx, "phase"); err != nil {
		return "", err
	}
	return h.Domain.Phase(ctx)
}

func (h *hangingDomain) Shutdown(ctx context.Context, how virt.Shutdown) error {
	if err := h.hang(ctx, string(how)); err != nil {
		return err
	}
	return h.Domain.Shutdown(ctx, how)
}

func (h *hangingDomain) Destroy(ctx context.Context) error {
	if err := h.hang(ctx, "destroy"); err != nil {
		return err
	}
	return h.Domain.Destroy(ctx)
}

// TestLibvirtHangs: neither the grace period, nor what shortens it, nor the next way waits
// for an answer, and there is never a second call beside one that hangs.
func TestHangingLibvirt(t *testing.T) {
	const forever = time.Hour
	both := []shutdown.Step{{Method: virt.ACPI, Timeout: 12 * time.Second}, {Method: virt.GuestAgent}}
	for name, tt := range map[string]struct {
		delays   map[string]time.Duration
		steps    []shutdown.Step
		deadline time.Duration
		want     shutdown.Outcome
		requests []string
		took     time.Duration
	}{
		"asked":               {map[string]time.Duration{"acpi": forever}, nil, 0, shutdown.Destroyed, []string{"acpi", "destroy"}, 30 * time.Second},
		"asked, and hurried":  {map[string]time.Duration{"acpi": forever}, nil, 8 * time.Second, shutdown.Destroyed, []string{"acpi", "destroy"}, 8 * time.Second},
		"asked, for a while":  {map[string]time.Duration{"acpi": 14 * time.Second}, nil, 0, shutdown.Ended, []string{"acpi"}, 14 * time.Second},
		"asked, and two ways": {map[string]time.Duration{"acpi": forever}, both, 0, shutdown.Ended, []string{"acpi", "guest-agent"}, 12 * time.Second},
		"looked at":           {map[string]time.Duration{"phase": forever}, nil, 0, shutdown.Ended, []string{"acpi", "acpi"}, 5 * time.Second},
		"asked and looked at": {map[string]time.Duration{"acpi": forever, "phase": forever}, nil, 0, shutdown.Destroyed, []string{"acpi", "destroy", "destroy"}, 35 * time.Second},
		"all, and destroyed late": {map[string]time.Duration{"acpi": forever, "phase": forever, "destroy": 12 * time.Second}, nil, 0, shutdown.Destroyed,
			[]string{"acpi", "destroy", "destroy"}, 57 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fake := virttest.New(virt.State{Name: "vm", Phase: virt.Running})
				d := &hangingDomain{Domain: fake.First(), delays: tt.delays, open: map[string]int{}}
				began, o := time.Now(), shutdown.Options{Steps: tt.steps}
				if tt.deadline > 0 {
					deadlines := make(chan time.Time, 1)
					deadlines <- began.Add(tt.deadline)
					o.Deadlines = deadlines
				}
				got, err := shutdown.Run(t.Context(), d, o)
				if took := time.Since(began); err != nil || got != tt.want || took != tt.took {
					t.Errorf("outcome %q, error %v, took %s, want %q in %s", got, err, took, tt.want, tt.took)
				}
				if !slices.Equal(d.requests, tt.requests) || d.maxOpen != 1 || d.open["acpi"] != 0 {
					t.Errorf("asked %v, want %v; %d at once; left behind %v", d.requests, tt.requests, d.maxOpen, d.open)
				}
			})
		})
	}
}
