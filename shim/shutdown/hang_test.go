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

// hangingDomain delays some calls until a time has passed or their context ends.
type hangingDomain struct {
	*virttest.Domain
	delays map[string]time.Duration // by call

	mu       sync.Mutex
	requests []string
	open     map[string]int // running calls
	maxOpen  int            // largest number of running calls of one kind
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

// Neither grace period, earlier deadline nor next step waits for a hanging call. There is never a
// second call of the same kind.
func TestHangingLibvirt(t *testing.T) {
	const forever = time.Hour
	both := []shutdown.Step{
		{Method: virt.ACPI, Timeout: 12 * time.Second},
		{Method: virt.GuestAgent},
	}
	for name, tt := range map[string]struct {
		delays   map[string]time.Duration
		steps    []shutdown.Step
		deadline time.Duration
		want     shutdown.Outcome
		requests []string
		took     time.Duration
	}{
		"request hangs": {
			map[string]time.Duration{"acpi": forever},
			nil,
			0,
			shutdown.Destroyed,
			[]string{"acpi", "destroy"},
			30 * time.Second,
		},
		"request hangs, earlier deadline": {
			map[string]time.Duration{"acpi": forever},
			nil,
			8 * time.Second,
			shutdown.Destroyed,
			[]string{"acpi", "destroy"},
			8 * time.Second,
		},
		"request is slow": {
			map[string]time.Duration{"acpi": 14 * time.Second},
			nil,
			0,
			shutdown.Ended,
			[]string{"acpi"},
			14 * time.Second,
		},
		"request hangs, two steps": {
			map[string]time.Duration{"acpi": forever},
			both,
			0,
			shutdown.Ended,
			[]string{"acpi", "guest-agent"},
			12 * time.Second,
		},
		"phase hangs": {
			map[string]time.Duration{"phase": forever},
			nil,
			0,
			shutdown.Ended,
			[]string{"acpi", "acpi"},
			5 * time.Second,
		},
		"request and phase hang": {
			map[string]time.Duration{"acpi": forever, "phase": forever},
			nil,
			0,
			shutdown.Destroyed,
			[]string{"acpi", "destroy", "destroy"},
			35 * time.Second,
		},
		"both hang, destroy is slow": {
			map[string]time.Duration{
				"acpi":    forever,
				"phase":   forever,
				"destroy": 12 * time.Second,
			},
			nil,
			0,
			shutdown.Destroyed,
			[]string{"acpi", "destroy", "destroy"},
			57 * time.Second,
		},
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
					t.Errorf(
						"outcome %q, error %v, took %s, want %q in %s", got, err, took, tt.want,
						tt.took,
					)
				}
				if !slices.Equal(d.requests, tt.requests) || d.maxOpen != 1 || d.open["acpi"] != 0 {
					t.Errorf(
						"requests %v, want %v; %d at once; still running %v", d.requests,
						tt.requests, d.maxOpen, d.open,
					)
				}
			})
		})
	}
}
