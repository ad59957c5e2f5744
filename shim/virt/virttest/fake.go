package virttest

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/mooring-vm/mooring/shim/virt"
	"github.com/mooring-vm/mooring/shim/virt/internal/notice"
)

// Fake is a hypervisor in memory. All methods are safe for concurrent use.
type Fake struct {
	hub notice.Hub

	mu      sync.Mutex
	away    bool
	closed  bool
	cut     Cut
	domains []*Domain
}

var _ virt.Connection = (*Fake)(nil)

// Cut is the moment at which a call loses the connection.
type Cut int

// The moments: before or after the fake executes the call.
const (
	Never Cut = iota
	Before
	After
)

// New returns a hypervisor with these domains.
func New(states ...virt.State) *Fake {
	f := &Fake{}
	for _, s := range states {
		f.domains = append(f.domains, &Domain{fake: f, state: clone(s)})
	}
	return f
}

// Disconnect makes libvirt unreachable until Reconnect.
func (f *Fake) Disconnect() {
	f.locked(func() { f.away = true })
	f.hub.NotifyAll()
}

// DisconnectOnCall makes libvirt unreachable during the next changing call.
func (f *Fake) DisconnectOnCall(c Cut) { f.locked(func() { f.cut = c }) }

// Reconnect makes libvirt reachable again.
func (f *Fake) Reconnect() {
	f.locked(func() { f.away = false })
	f.hub.NotifyAll()
}

// Restart ends the first domain and starts it again with the given state.
func (f *Fake) Restart(s virt.State) {
	f.locked(func() { f.domains[0] = &Domain{fake: f, state: clone(s)} })
	f.hub.Notify(s.UUID)
}

func (f *Fake) locked(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

// Domain finds a domain by UUID or by name.
func (f *Fake) Domain(ctx context.Context, nameOrUUID string) (virt.Domain, error) {
	all, err := f.listDomains(ctx)
	if err != nil {
		return nil, fmt.Errorf("find domain %q: %w", nameOrUUID, err)
	}
	at := slices.IndexFunc(all, func(d *Domain) bool { return d.state.UUID == nameOrUUID })
	if at < 0 {
		at = slices.IndexFunc(all, func(d *Domain) bool { return d.state.Name == nameOrUUID })
	}
	if at < 0 {
		return nil, fmt.Errorf("find domain %q: %w", nameOrUUID, virt.ErrNoDomain)
	}
	return all[at], nil
}

// First returns the first domain, so that tests can set it up.
func (f *Fake) First() (d *Domain) {
	f.locked(func() { d = f.domains[0] })
	return d
}

// Domains lists all domains.
func (f *Fake) Domains(ctx context.Context) ([]virt.Domain, error) {
	all, err := f.listDomains(ctx)
	if err != nil {
		return nil, fmt.Errorf("list domains: %w", err)
	}
	found := make([]virt.Domain, len(all))
	for i, d := range all {
		found[i] = d
	}
	return found, nil
}

func (f *Fake) listDomains(ctx context.Context) ([]*Domain, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.domains, f.available(ctx)
}

// available returns the error of a call at this moment. The caller holds mu.
func (f *Fake) available(ctx context.Context) error {
	if f.away || f.closed {
		return virt.ErrConnection
	}
	return ctx.Err()
}

// Changed receives after each change of a domain.
func (f *Fake) Changed(ctx context.Context) <-chan struct{} { return f.hub.Subscribe(ctx, "") }

// Close ends the connection.
func (f *Fake) Close() error {
	f.locked(func() { f.closed = true })
	f.hub.Close()
	return nil
}
