//go:build cgo && libvirt_dlopen

package libvirt

import (
	"context"
	"errors"
	"fmt"

	"libvirt.org/go/libvirt"

	"github.com/mooring-vm/mooring/shim/virt"
)

// domain is a domain on any link. Each session looks it up once.
type domain struct {
	c          *connection
	uuid, name string
	startID    uint // libvirt's ID, new for each start; 0 if the domain was off when found
}

var _ virt.Domain = (*domain)(nil)

// withHandle calls f with libvirt's handle of the domain. action describes f in errors.
func (d *domain) withHandle(
	ctx context.Context,
	action string,
	f func(*libvirt.Domain) error,
) error {
	return d.withSession(ctx, action, func(_ *session, handle *libvirt.Domain) error {
		return f(handle)
	})
}

// withSession is withHandle with the handle's session.
func (d *domain) withSession(
	ctx context.Context,
	action string,
	f func(*session, *libvirt.Domain) error,
) error {
	err := d.c.call(ctx, func(s *session) error {
		handle, err := s.handle(d.uuid)
		if err != nil {
			return err
		}
		return asNotRunning(handle, f(s, handle))
	})
	if err != nil {
		return fmt.Errorf("domain %s: %s: %w", d.name, action, err)
	}
	return nil
}

// asNotRunning adds [virt.ErrNotRunning] if the domain does not run. libvirt has one error code for
// this and other cases.
func asNotRunning(handle *libvirt.Domain, err error) error {
	if !hasCode(err, libvirt.ERR_OPERATION_INVALID) {
		return err
	}
	if active, activeErr := handle.IsActive(); activeErr == nil && !active {
		return fmt.Errorf("%w: %w", virt.ErrNotRunning, classified(err))
	}
	return err
}

// change calls f to change the domain, and its definition if it has one. A transient domain has
// none.
func (d *domain) change(ctx context.Context, action string,
	f func(*libvirt.Domain, libvirt.DomainModificationImpact) error,
) error {
	defer d.c.hub.Notify(d.uuid)
	return d.withHandle(ctx, action, func(handle *libvirt.Domain) error {
		persistent, err := handle.IsPersistent()
		if err != nil {
			return err
		}
		if persistent {
			return f(handle, libvirt.DOMAIN_AFFECT_LIVE|libvirt.DOMAIN_AFFECT_CONFIG)
		}
		return f(handle, libvirt.DOMAIN_AFFECT_LIVE)
	})
}

// XML returns the XML of the running domain.
func (d *domain) XML(ctx context.Context) (string, error) {
	var text string
	err := d.withHandle(ctx, "read its XML", func(handle *libvirt.Domain) (err error) {
		text, err = handle.GetXMLDesc(0)
		return err
	})
	if err != nil {
		return "", err // an abandoned call may still write text
	}
	return text, nil
}

// SetVCPUs plugs or unplugs vCPUs. libvirt waits 5 s for the guest to release a vCPU. After that
// the error is [virt.ErrUnconfirmed]. vCPUs added to the definition are hot-pluggable, so they can
// be unplugged after the next start.
func (d *domain) SetVCPUs(ctx context.Context, n int) error {
	if n < 1 {
		return fmt.Errorf("domain %s: set vCPUs to %d: want 1 or more", d.name, n)
	}
	return d.change(
		ctx,
		fmt.Sprintf("set vCPUs to %d", n),
		func(handle *libvirt.Domain, impact libvirt.DomainModificationImpact) error {
			return setVCPUs(handle, n, libvirt.DomainVcpuFlags(impact))
		},
	)
}

// setVCPUs first tries with the flag for hot-pluggable vCPUs, which concerns definitions only.
func setVCPUs(handle *libvirt.Domain, n int, flags libvirt.DomainVcpuFlags) error {
	if flags&libvirt.DOMAIN_VCPU_CONFIG != 0 {
		err := classified(handle.SetVcpusFlags(uint(n), flags|libvirt.DOMAIN_VCPU_HOTPLUGGABLE))
		if !errors.Is(err, virt.ErrUnsupported) {
			return asUnconfirmedUnplug(err)
		}
	}
	return asUnconfirmedUnplug(handle.SetVcpusFlags(uint(n), flags))
}

// Shutdown passes exactly one method to libvirt, because without one libvirt would choose. The
// error is [virt.ErrUnconfirmed] if the agent's channel closes before the answer, as a fast guest
// does.
func (d *domain) Shutdown(ctx context.Context, how virt.Shutdown) error {
	flags := map[virt.Shutdown]libvirt.DomainShutdownFlags{
		virt.ACPI:       libvirt.DOMAIN_SHUTDOWN_ACPI_POWER_BTN,
		virt.GuestAgent: libvirt.DOMAIN_SHUTDOWN_GUEST_AGENT,
	}
	flag, ok := flags[how]
	if !ok {
		return fmt.Errorf(
			"domain %s: shut down by %q: want %q or %q", d.name, how, virt.ACPI, virt.GuestAgent,
		)
	}
	return d.withHandle(
		ctx,
		"ask the guest to shut down by "+string(how),
		func(handle *libvirt.Domain) error {
			return asAgentGone(handle.ShutdownFlags(flag))
		},
	)
}

// Destroy ends QEMU with SIGTERM and then with SIGKILL. It does not set libvirt's flag "graceful",
// which would leave out the SIGKILL.
func (d *domain) Destroy(ctx context.Context) error {
	return d.withHandle(ctx, "destroy it", func(handle *libvirt.Domain) error {
		return handle.DestroyFlags(libvirt.DOMAIN_DESTROY_DEFAULT)
	})
}

// Changed receives after each event of libvirt and after each change made through this connection.
func (d *domain) Changed(ctx context.Context) (<-chan struct{}, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("domain %s: watch it: %w", d.name, err)
	}
	return d.c.hub.Subscribe(ctx, d.uuid), nil
}
