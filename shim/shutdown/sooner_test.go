package shutdown_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/mooring-vm/mooring/shim/shutdown"
	"github.com/mooring-vm/mooring/shim/virt"
	"github.com/mooring-vm/mooring/shim/virt/virttest"
)

// TestSooner: what comes later can shorten the grace period, and nothing makes it longer.
// How long the domain is destroyed for has nothing to do with it.
func TestSooner(t *testing.T) {
	ways := []shutdown.Way{{How: virt.ACPI, Within: 12 * time.Second}, {How: virt.GuestAgent}}
	for name, tt := range map[string]struct {
		told   time.Duration // when
		moment time.Duration // what
		change func(*domain, *virttest.Fake)
		took   time.Duration
	}{
		"sooner":              {3 * time.Second, 8 * time.Second, nil, 8 * time.Second},
		"in the second way":   {13 * time.Second, 20 * time.Second, nil, 20 * time.Second},
		"at once":             {3 * time.Second, 3 * time.Second, nil, 3 * time.Second},
		"already":             {3 * time.Second, time.Second, nil, 3 * time.Second},
		"later":               {3 * time.Second, time.Hour, nil, 30 * time.Second},
		"libvirt is away yet": {3 * time.Second, 8 * time.Second, func(_ *domain, f *virttest.Fake) { f.Disconnect(); time.AfterFunc(9*time.Second, f.Reconnect) }, 13 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d, fake := newDomain()
				deaf(d)
				d.deaf = []virt.Shutdown{virt.ACPI, virt.GuestAgent}
				if tt.change != nil {
					tt.change(d, fake)
				}
				began, sooner := time.Now(), make(chan time.Time, 1)
				time.AfterFunc(tt.told, func() { sooner <- began.Add(tt.moment) })
				got, err := shutdown.Run(t.Context(), d, shutdown.Options{Ways: ways, Sooner: sooner})
				if took := time.Since(began); err != nil || got != shutdown.Destroyed || took != tt.took {
					t.Errorf("outcome %q, error %v, took %s, want %s", got, err, took, tt.took)
				}
			})
		})
	}
}

// TestSoonerIsClosed: nobody is left who could tell of anything.
func TestSoonerIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, _ := newDomain()
		deaf(d)
		began, sooner := time.Now(), make(chan time.Time)
		close(sooner)
		got, err := shutdown.Run(t.Context(), d, shutdown.Options{Sooner: sooner})
		if took := time.Since(began); err != nil || got != shutdown.Destroyed || took != 30*time.Second {
			t.Errorf("outcome %q, error %v, took %s", got, err, took)
		}
	})
}
