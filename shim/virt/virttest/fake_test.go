package virttest

import (
	"errors"
	"testing"

	"github.com/mooring-vm/mooring/shim/virt"
)

// Calls succeed whatever the guest does. Only the state shows its behaviour.
func TestGuestBehaviour(t *testing.T) {
	for name, c := range map[string]struct {
		guest  Guest
		action func(d *Domain) error
		want   func(s virt.State) bool
	}{
		"keeps vCPUs offline": {
			Guest{KeepVCPUsOffline: true},
			func(d *Domain) error { return d.SetVCPUs(t.Context(), 4) },
			func(s virt.State) bool { return s.VCPUs.Plugged == 4 && s.VCPUs.Online == 1 },
		},
		"takes part of the memory": {
			Guest{TakeMemory: 32 * mib},
			func(d *Domain) error { return d.RequestMemory(t.Context(), "virtiomem0", 64*mib) },
			func(s virt.State) bool {
				m := s.Memory.Devices[0]
				return m.Requested == 64*mib && m.Current == 32*mib && s.Memory.Balloon == 192*mib
			},
		},
		"gives part of the memory": {
			Guest{KeepMemory: 16 * mib},
			func(d *Domain) error {
				return errors.Join(
					d.RequestMemory(t.Context(), "virtiomem0", 64*mib),
					d.RequestMemory(t.Context(), "virtiomem0", 0),
				)
			},
			func(s virt.State) bool {
				return s.Memory.Devices[0].Requested == 0 && s.Memory.Devices[0].Current == 16*mib
			},
		},
		"keeps DIMMs": {
			Guest{KeepDIMMs: true},
			func(d *Domain) error {
				return errors.Join(
					d.AttachDIMM(t.Context(), 0, 128*mib), d.DetachDIMM(t.Context(), "dimm0"),
				)
			},
			func(s virt.State) bool { return len(s.Memory.Devices) == 2 },
		},
		"ignores the balloon": {
			Guest{IgnoreBalloon: true},
			func(d *Domain) error { return d.SetBalloon(t.Context(), 100*mib) },
			func(s virt.State) bool { return s.Memory.Balloon == 160*mib },
		},
		"ignores the button": {
			Guest{IgnoreShutdown: true},
			func(d *Domain) error { return d.Shutdown(t.Context(), virt.ACPI) },
			func(s virt.State) bool { return s.Phase == virt.Running },
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := New(domainState()).First()
			d.SetGuest(c.guest)
			if err := c.action(d); err != nil {
				t.Fatal(err)
			}
			if s, err := d.State(t.Context()); err != nil || !c.want(s) {
				t.Errorf("%+v, %v", s, err)
			}
		})
	}
}

func TestLateGuest(t *testing.T) {
	d := New(domainState()).First()
	d.SetGuest(Guest{Late: true})
	must(t, d.SetVCPUs(t.Context(), 4), d.RequestMemory(t.Context(), "virtiomem0", 64*mib))
	s, _ := d.State(t.Context())
	if s.VCPUs.Plugged != 4 || s.VCPUs.Online != 1 || s.Memory.Devices[0].Current != 0 {
		t.Errorf("%+v before the guest answered", s)
	}
	d.AnswerPending()
	if s, _ := d.State(t.Context()); s.VCPUs.Online != 4 || s.Memory.Devices[0].Current != 64*mib {
		t.Errorf("%+v after it", s)
	}
}

// The error of a call that lost its connection does not show whether the call took effect.
func TestDisconnectOnCall(t *testing.T) {
	for cut, plugged := range map[Cut]int{Before: 1, After: 4} {
		f := New(domainState())
		f.DisconnectOnCall(cut)
		if err := f.First().SetVCPUs(t.Context(), 4); !errors.Is(err, virt.ErrConnection) {
			t.Errorf("the call's error is %v, want %v", err, virt.ErrConnection)
		}
		if _, err := f.First().State(t.Context()); !errors.Is(err, virt.ErrConnection) {
			t.Errorf("the next call's error is %v, want %v", err, virt.ErrConnection)
		}
		f.Reconnect()
		if s, err := f.First().State(t.Context()); err != nil || s.VCPUs.Plugged != plugged {
			t.Errorf("cut %d: %+v, %v, want %d vCPUs", cut, s.VCPUs, err, plugged)
		}
		if calls := f.First().Calls(); len(calls) != 1 {
			t.Errorf("calls are %q, want one", calls)
		}
	}
}

func TestMigration(t *testing.T) {
	d := New(domainState()).First()
	d.Set(func(s *virt.State) { s.Migrating = true })
	if err := d.SetVCPUs(t.Context(), 2); err == nil {
		t.Error("a domain was resized while it migrates")
	}
	must(t, d.Destroy(t.Context()))
}
