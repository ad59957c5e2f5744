//go:build cgo && libvirt_dlopen

package libvirt

import (
	"context"
	"errors"
	"fmt"

	"libvirt.org/go/libvirt"

	"github.com/mooring-vm/mooring/shim/virt"
)

// call runs f in a goroutine of its own, because calls of libvirt cannot be interrupted. It returns
// early if ctx ends or the link is lost. f then runs on.
func (c *connection) call(ctx context.Context, f func(*session) error) error {
	l, err := c.acquireLink()
	if err != nil {
		return err
	}
	select {
	case l.slots <- struct{}{}:
	case <-l.lost:
		l.calls.Done()
		return virt.ErrConnection
	case <-ctx.Done():
		l.calls.Done()
		return ctx.Err()
	}
	done := make(chan error, 1)
	l.hang.add(1)
	go func() {
		err := l.run(f)
		l.hang.add(-1)
		l.calls.Done()
		<-l.slots
		done <- err
	}()
	return l.await(ctx, done)
}

// await waits for the result of a call. A call in a lost link may hang until the daemon continues,
// so its result counts only if it is there already.
func (l *link) await(ctx context.Context, done <-chan error) error {
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	case <-l.lost:
	}
	select {
	case err := <-done:
		return err
	default:
		return virt.ErrConnection
	}
}

// acquireLink returns the current link. The link stays open until the caller calls its calls.Done.
func (c *connection) acquireLink() (*link, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.link == nil {
		return nil, virt.ErrConnection
	}
	c.link.calls.Add(1)
	return c.link, nil
}

// Domain finds a domain.
func (c *connection) Domain(ctx context.Context, nameOrUUID string) (virt.Domain, error) {
	var found *domain
	err := c.call(ctx, func(s *session) error {
		d, err := s.conn.LookupDomainByUUIDString(nameOrUUID)
		if err != nil && hasCode(err, libvirt.ERR_NO_DOMAIN, libvirt.ERR_INVALID_ARG) {
			d, err = s.conn.LookupDomainByName(nameOrUUID)
		}
		if err != nil {
			return err
		}
		found, err = c.newDomain(s, d)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("find domain %q: %w", nameOrUUID, err)
	}
	return found, nil
}

// Domains lists all domains.
func (c *connection) Domains(ctx context.Context) ([]virt.Domain, error) {
	var found []virt.Domain
	err := c.call(ctx, func(s *session) error {
		all, err := s.conn.ListAllDomains(0)
		var errs []error
		for i := range all {
			d, err := c.newDomain(s, &all[i])
			found, errs = append(found, d), append(errs, err)
		}
		return errors.Join(append(errs, err)...)
	})
	if err != nil {
		return nil, fmt.Errorf("list domains: %w", err)
	}
	return found, nil
}

// newDomain makes a domain from libvirt's handle and frees the handle: a domain outlives the session.
func (c *connection) newDomain(s *session, d *libvirt.Domain) (*domain, error) {
	defer func() { _ = d.Free() }()
	uuid, err := d.GetUUIDString()
	if err != nil {
		return nil, err
	}
	name, err := d.GetName()
	found := &domain{c: c, uuid: uuid, name: name, startID: startID(d)}
	s.link.noteStart(uuid, found.startID)
	return found, err
}

// startID returns the ID of a running domain, or 0. libvirt assigns a new ID to each start,
// beginning with 1. The ID survives a restart of libvirtd.
func startID(d *libvirt.Domain) uint {
	id, err := d.GetID()
	if err != nil {
		return 0
	}
	return id
}
