package shutdown_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/mooring-vm/mooring/shim/shutdown"
	"github.com/mooring-vm/mooring/shim/virt"
	"github.com/mooring-vm/mooring/shim/virt/virttest"
)

// A deadline can shorten the grace period but not extend it. It has no effect on the time for
// destroy.
func TestEarlierDeadline(t *testing.T) {
	steps := []shutdown.Step{
		{Method: virt.ACPI, Timeout: 12 * time.Second},
		{Method: virt.GuestAgent},
	}
	for name, tt := range map[string]struct {
		sentAfter time.Duration
		deadline  time.Duration // since the start
		change    func(*domain, *virttest.Fake)
		took      time.Duration
	}{
		"earlier":            {3 * time.Second, 8 * time.Second, nil, 8 * time.Second},
		"in the second step": {13 * time.Second, 20 * time.Second, nil, 20 * time.Second},
		"now":                {3 * time.Second, 3 * time.Second, nil, 3 * time.Second},
		"in the past":        {3 * time.Second, time.Second, nil, 3 * time.Second},
		"later":              {3 * time.Second, time.Hour, nil, 30 * time.Second},
		"libvirt away": {
			3 * time.Second,
			8 * time.Second,
			func(_ *domain, f *virttest.Fake) {
				f.Disconnect()
				time.AfterFunc(9*time.Second, f.Reconnect)
			},
			13 * time.Second,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d, fake := newDomain()
				ignoreShutdown(d)
				d.ignored = []virt.Shutdown{virt.ACPI, virt.GuestAgent}
				if tt.change != nil {
					tt.change(d, fake)
				}
				began, deadlines := time.Now(), make(chan time.Time, 1)
				time.AfterFunc(tt.sentAfter, func() { deadlines <- began.Add(tt.deadline) })
				got, err := shutdown.Run(
					t.Context(), d, shutdown.Options{Steps: steps, Deadlines: deadlines},
				)
				took := time.Since(began)
				if err != nil || got != shutdown.Destroyed || took != tt.took {
					t.Errorf("outcome %q, error %v, took %s, want %s", got, err, took, tt.took)
				}
			})
		})
	}
}

func TestClosedDeadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, _ := newDomain()
		ignoreShutdown(d)
		began, deadlines := time.Now(), make(chan time.Time)
		close(deadlines)
		got, err := shutdown.Run(t.Context(), d, shutdown.Options{Deadlines: deadlines})
		took := time.Since(began)
		if err != nil || got != shutdown.Destroyed || took != 30*time.Second {
			t.Errorf("outcome %q, error %v, took %s", got, err, took)
		}
	})
}
