package shutdown_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mooring-vm/mooring/shim/shutdown"
	"github.com/mooring-vm/mooring/shim/virt"
	"github.com/mooring-vm/mooring/shim/virt/virttest"
)

// domain is a running domain. It records the shutdown requests, and can ignore methods.
type domain struct {
	*virttest.Domain
	unsupported []virt.Shutdown
	ignored     []virt.Shutdown
	requests    []string
}

func (d *domain) Shutdown(ctx context.Context, how virt.Shutdown) error {
	d.requests = append(d.requests, string(how))
	switch {
	case slices.Contains(d.unsupported, how):
		return virt.ErrUnsupported
	case slices.Contains(d.ignored, how):
		return nil
	}
	return d.Domain.Shutdown(ctx, how)
}

func newDomain() (*domain, *virttest.Fake) {
	fake := virttest.New(
		virt.State{UUID: "6b0d8f0e-6e2e-4c52-9d2c-0c1c6a1d2a3b", Name: "vm", Phase: virt.Running},
	)
	return &domain{Domain: fake.First()}, fake
}

func acpi(n int) []string { return slices.Repeat([]string{"acpi"}, n) }

func TestRun(t *testing.T) {
	both := []shutdown.Step{
		{Method: virt.ACPI, Timeout: 12 * time.Second},
		{Method: virt.GuestAgent},
	}
	for name, tt := range map[string]struct {
		change   func(*domain, *virttest.Fake)
		steps    []shutdown.Step
		want     shutdown.Outcome
		requests []string
		took     time.Duration
	}{
		"at once": {
			func(*domain, *virttest.Fake) {},
			nil,
			shutdown.Ended,
			acpi(1),
			0,
		},
		"already ended": {
			func(d *domain, _ *virttest.Fake) {
				end(d)
			},
			nil,
			shutdown.Ended,
			acpi(1),
			0,
		},
		"ends by itself": {
			func(d *domain, _ *virttest.Fake) {
				ignoreShutdown(d)
				time.AfterFunc(7*time.Second, func() { end(d) })
			},
			nil,
			shutdown.Ended,
			acpi(2),
			7 * time.Second,
		},
		"answers late": {
			func(d *domain, _ *virttest.Fake) {
				answerLate(d, 8*time.Second)
			},
			nil,
			shutdown.Ended,
			acpi(2),
			8 * time.Second,
		},
		"never answers": {
			func(d *domain, _ *virttest.Fake) {
				ignoreShutdown(d)
			},
			nil,
			shutdown.Destroyed,
			acpi(6),
			30 * time.Second,
		},
		"obeys the agent only": {
			func(d *domain, _ *virttest.Fake) {
				d.ignored = []virt.Shutdown{virt.ACPI}
			},
			both,
			shutdown.Ended,
			append(acpi(3), "guest-agent"),
			12 * time.Second,
		},
		"has no agent": {
			func(d *domain, _ *virttest.Fake) {
				ignoreShutdown(d)
				d.unsupported = []virt.Shutdown{virt.GuestAgent}
			},
			both,
			shutdown.Destroyed,
			append(acpi(3), "guest-agent"),
			30 * time.Second,
		},
		"has no ACPI": {
			func(d *domain, _ *virttest.Fake) {
				d.unsupported = []virt.Shutdown{virt.ACPI}
			},
			both,
			shutdown.Ended,
			[]string{"acpi", "guest-agent"},
			0,
		},
		"libvirt away": {
			func(_ *domain, f *virttest.Fake) {
				f.Disconnect()
				time.AfterFunc(9*time.Second, f.Reconnect)
			},
			nil,
			shutdown.Ended,
			acpi(3),
			10 * time.Second,
		},
		"libvirt away for long": {
			func(_ *domain, f *virttest.Fake) {
				f.Disconnect()
				time.AfterFunc(34*time.Second, f.Reconnect)
			},
			nil,
			shutdown.Destroyed,
			acpi(6),
			35 * time.Second,
		},
		"lost on the call": {
			func(_ *domain, f *virttest.Fake) {
				f.DisconnectOnCall(virttest.After)
				time.AfterFunc(time.Second, f.Reconnect)
			},
			nil,
			shutdown.Ended,
			acpi(1),
			time.Second,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d, fake := newDomain()
				tt.change(d, fake)
				began := time.Now()
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				got, err := shutdown.Run(ctx, d, shutdown.Options{Steps: tt.steps})
				if err != nil || got != tt.want {
					t.Fatalf("outcome %q, error %v, want %q", got, err, tt.want)
				}
				took := time.Since(began)
				if took != tt.took || !slices.Equal(d.requests, tt.requests) {
					t.Errorf(
						"requests %v and took %v, want %v and %v", d.requests, took, tt.requests,
						tt.took,
					)
				}
				if s, err := d.State(ctx); err != nil || s.Phase != virt.ShutOff {
					t.Errorf("the domain is %q, %v", s.Phase, err)
				}
			})
		})
	}
}

// After cancellation Run returns ctx's error and leaves the domain alone.
func TestRunCanceled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, _ := newDomain()
		ignoreShutdown(d)
		ctx, cancel := context.WithTimeout(t.Context(), 7*time.Second)
		defer cancel()
		_, err := shutdown.Run(ctx, d, shutdown.Options{})
		if !errors.Is(err, context.DeadlineExceeded) ||
			!strings.Contains(err.Error(), "shut down the domain") {
			t.Errorf("error %v", err)
		}
		if s, err := d.State(t.Context()); err != nil || s.Phase != virt.Running {
			t.Errorf("the domain is %q, %v", s.Phase, err)
		}
	})
}

func ignoreShutdown(d *domain) { d.SetGuest(virttest.Guest{IgnoreShutdown: true}) }

func answerLate(d *domain, after time.Duration) {
	d.SetGuest(virttest.Guest{Late: true})
	time.AfterFunc(after, d.AnswerPending)
}

func end(d *domain) { d.Set(func(s *virt.State) { s.Phase = virt.ShutOff }) }
