package virttest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/mooring-vm/mooring/shim/virt"
)

// Domain is a domain of a [Fake].
type Domain struct {
	fake *Fake

	// The remaining fields are guarded by fake.mu.
	state   virt.State
	guest   Guest
	calls   []string
	reads   Reads
	pending []func()  // reactions that the guest still owes
	moved   time.Time // when a slow guest last changed its memory
}

var _ virt.Domain = (*Domain)(nil)

// Set changes the state without a call, for example to a migration.
func (d *Domain) Set(change func(*virt.State)) {
	d.SetSilently(change)
	d.fake.hub.Notify(d.state.UUID)
}

// SetSilently is Set without an event.
func (d *Domain) SetSilently(change func(*virt.State)) {
	d.fake.locked(func() { change(&d.state) })
}

// Calls returns all changing calls so far, failed ones included.
func (d *Domain) Calls() []string {
	d.fake.mu.Lock()
	defer d.fake.mu.Unlock()
	return slices.Clone(d.calls)
}

// Reads counts the calls that read the domain.
type Reads struct {
	Phase, Life, State int
	Guest              int // queries to the guest
}

// Reads returns the counts so far.
func (d *Domain) Reads() Reads {
	d.fake.mu.Lock()
	defer d.fake.mu.Unlock()
	return d.reads
}

// Phase returns the phase.
func (d *Domain) Phase(ctx context.Context) (virt.Phase, error) {
	s, err := d.read(ctx, func(l *Reads) { l.Phase++ })
	return s.Phase, err
}

// Life returns phase and migration.
func (d *Domain) Life(ctx context.Context) (virt.Life, error) {
	s, err := d.read(ctx, func(l *Reads) { l.Life++ })
	return virt.Life{UUID: s.UUID, Phase: s.Phase, Migrating: s.Migrating}, err
}

// State returns the state.
func (d *Domain) State(ctx context.Context) (virt.State, error) {
	return d.read(ctx, func(l *Reads) { l.State++; l.Guest++ })
}

// StateWithoutGuest returns the state without the guest's answer.
func (d *Domain) StateWithoutGuest(ctx context.Context) (virt.State, error) {
	s, err := d.read(ctx, func(l *Reads) { l.State++ })
	if err == nil {
		s.VCPUs.Online = virt.Unknown
	}
	return s, err
}

func (d *Domain) read(ctx context.Context, count func(*Reads)) (virt.State, error) {
	d.fake.mu.Lock()
	defer d.fake.mu.Unlock()
	count(&d.reads)
	d.moveMemory()
	err := d.fake.available(ctx)
	if err == nil && !slices.Contains(d.fake.domains, d) {
		err = virt.ErrNoDomain
	}
	if err != nil {
		return virt.State{}, fmt.Errorf("domain %s: read its state: %w", d.state.Name, err)
	}
	return clone(d.state), nil
}

func clone(s virt.State) virt.State {
	s.Memory.Devices = slices.Clone(s.Memory.Devices)
	return s
}

// change runs a changing call and notifies subscribers.
func (d *Domain) change(ctx context.Context, action string, f func() error) error {
	defer d.fake.hub.Notify(d.state.UUID)
	d.fake.mu.Lock()
	defer d.fake.mu.Unlock()
	if err := d.execute(ctx, action, f); err != nil {
		return fmt.Errorf("domain %s: %s: %w", d.state.Name, action, err)
	}
	return nil
}

func (d *Domain) execute(ctx context.Context, action string, f func() error) error {
	d.calls = append(d.calls, action)
	if err := d.fake.available(ctx); err != nil {
		return err
	}
	cut := d.fake.cut
	d.fake.cut, d.fake.away = Never, cut != Never
	if cut == Before {
		return virt.ErrConnection
	}
	err := d.ifAllowed(f)
	if cut == After {
		return virt.ErrConnection
	}
	return err
}

// ifAllowed runs f, unless the domain's phase or a migration forbids any change.
func (d *Domain) ifAllowed(f func() error) error {
	switch {
	case d.state.Phase == virt.ShutOff || d.state.Phase == virt.Crashed:
		return virt.ErrNotRunning
	case d.state.Migrating:
		return errors.New("cannot acquire state change lock: a migration is under way")
	}
	return f()
}

// SetVCPUs plugs and unplugs as libvirt does: an unplug needs the guest's consent.
func (d *Domain) SetVCPUs(ctx context.Context, n int) error {
	return d.change(ctx, fmt.Sprintf("set vCPUs to %d", n), func() error {
		v := &d.state.VCPUs
		switch {
		case n < 1 || n > v.Maximum:
			return fmt.Errorf("%d vCPUs: want 1 to %d", n, v.Maximum)
		case n < v.Boot:
			return fmt.Errorf("%d vCPUs: want %d or more, which cannot be unplugged", n, v.Boot)
		case n >= v.Plugged:
			v.Plugged = n
			d.answerWith(func(g Guest) { d.setOnlineVCPUs(g) })
			return nil
		case d.guest.KeepVCPUs:
			return virt.ErrUnconfirmed
		}
		v.Plugged = n
		d.setOnlineVCPUs(d.guest)
		return nil
	})
}

func (d *Domain) setOnlineVCPUs(g Guest) {
	v := &d.state.VCPUs
	if v.Online == virt.Unknown {
		return
	}
	if !g.KeepVCPUsOffline || v.Online > v.Plugged {
		v.Online = v.Plugged
	}
}

// SetBandwidth has the bounds of libvirt.
func (d *Domain) SetBandwidth(ctx context.Context, b virt.Bandwidth) error {
	return d.change(
		ctx,
		fmt.Sprintf(
			"set CPU bandwidth to period %s, quota %s, shares %d", b.Period, b.Quota, b.Shares,
		),
		func() error {
			current := &d.state.Bandwidth
			if !current.Supported {
				return virt.ErrUnsupported
			}
			if err := checkBandwidth(b); err != nil {
				return err
			}
			if b.Period != 0 {
				current.Period = b.Period
			}
			if b.Quota != 0 {
				current.Quota = b.Quota
			}
			if b.Shares != 0 {
				current.Shares = b.Shares
			}
			return nil
		},
	)
}

// Shutdown powers the domain off, unless the guest ignores it.
func (d *Domain) Shutdown(ctx context.Context, how virt.Shutdown) error {
	return d.change(ctx, "ask the guest to shut down by "+string(how), func() error {
		if how != virt.ACPI && how != virt.GuestAgent {
			return fmt.Errorf("shut down by %q: want %q or %q", how, virt.ACPI, virt.GuestAgent)
		}
		if how == virt.GuestAgent && d.state.VCPUs.Online == virt.Unknown {
			return virt.ErrUnsupported
		}
		if !d.guest.IgnoreShutdown {
			d.answerWith(func(Guest) { d.powerOff() })
		}
		return nil
	})
}

// Destroy powers the domain off, even during a migration.
func (d *Domain) Destroy(ctx context.Context) error {
	d.fake.locked(func() { d.state.Migrating = false })
	return d.change(ctx, "destroy it", func() error {
		d.powerOff()
		return nil
	})
}

func (d *Domain) powerOff() {
	d.state.Phase = virt.ShutOff
	d.state.VCPUs.Online = virt.Unknown
	d.pending = nil
}

// Changed receives after each change.
func (d *Domain) Changed(ctx context.Context) (<-chan struct{}, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("domain %s: watch it: %w", d.state.Name, err)
	}
	return d.fake.hub.Subscribe(ctx, d.state.UUID), nil
}
