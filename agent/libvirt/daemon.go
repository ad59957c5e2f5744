package libvirt

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/digitalocean/go-libvirt"
	"github.com/digitalocean/go-libvirt/socket/dialers"
	"github.com/google/uuid"
)

var (
	// ErrNoDomain means that libvirt has no running domain with this UUID. It does not prove the
	// end of the domain's process.
	ErrNoDomain = errors.New("libvirt runs no such domain")

	// ErrOtherProcess means that another process than the given one runs the domain.
	ErrOtherProcess = errors.New("another process runs the domain")
)

// Daemon is libvirtd or virtqemud. Each call opens a connection of its own. Daemon is safe for
// concurrent use.
type Daemon struct {
	Socket string // such as /run/libvirt/libvirt-sock
}

// Shutdown requests the shutdown of a domain's guest by the ACPI power button. It does not
// wait for the shutdown, and the guest may ignore the button.
//
// Shutdown sets the ACPI flag: by default libvirt first calls an agent in the guest, and waits
// a minute for its answer.
//
// The daemon may answer late, and identifies the domain by its UUID alone. The domain may end
// and start anew meanwhile. So Shutdown calls stillRuns just before the request. If stillRuns
// returns an error, such as the error of [Records.Runs], Shutdown does nothing.
//
// It blocks until the daemon has answered or ctx ends. If libvirt has no such domain, or the
// domain does not run, the error wraps [ErrNoDomain].
func (d Daemon) Shutdown(ctx context.Context, domain string, stillRuns func() error) error {
	id, err := uuid.Parse(domain)
	if err != nil {
		return fmt.Errorf("shut down domain %q: want a UUID", domain)
	}
	err = d.call(ctx, func(l *libvirt.Libvirt) error {
		return shutdown(l, libvirt.UUID(id), stillRuns)
	})
	if err != nil {
		return fmt.Errorf("shut down domain %s: %w", domain, err)
	}
	return nil
}

// shutdownAPI is the part of libvirt's API for a shutdown.
type shutdownAPI interface {
	DomainLookupByUUID(id libvirt.UUID) (libvirt.Domain, error)
	DomainShutdownFlags(d libvirt.Domain, flags libvirt.DomainShutdownFlagValues) error
}

func shutdown(l shutdownAPI, id libvirt.UUID, stillRuns func() error) error {
	found, err := l.DomainLookupByUUID(id)
	if err != nil {
		return err
	}
	if err := stillRuns(); err != nil {
		return fmt.Errorf("no shutdown requested: %w", err)
	}
	return l.DomainShutdownFlags(found, libvirt.DomainShutdownAcpiPowerBtn)
}

// UUID returns the UUID of a domain. It blocks until the daemon has answered or ctx ends.
func (d Daemon) UUID(ctx context.Context, name string) (id string, err error) {
	err = d.call(ctx, func(l *libvirt.Libvirt) error {
		found, err := l.DomainLookupByName(name)
		id = uuid.UUID(found.UUID).String()
		return err
	})
	if err != nil {
		return "", fmt.Errorf("UUID of domain %q: %w", name, err)
	}
	return id, nil
}

// call opens a connection for one use. The end of ctx closes the connection, and so ends a
// wait for an answer.
func (d Daemon) call(ctx context.Context, use func(*libvirt.Libvirt) error) error {
	conn, err := new(net.Dialer).DialContext(ctx, "unix", d.Socket)
	if err != nil {
		return fmt.Errorf("libvirt at %s: %w", d.Socket, err)
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	l := libvirt.NewWithDialer(dialers.NewAlreadyConnected(&framed{Conn: conn}))
	if err = l.ConnectToURI(libvirt.QEMUSystem); err == nil {
		err = use(l)
	}
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return fmt.Errorf("libvirt at %s: %w", d.Socket, context.Cause(ctx))
	}
	return fmt.Errorf("libvirt at %s: %w", d.Socket, translate(err))
}

// translate wraps ErrNoDomain around libvirt's errors for an absent or inactive domain.
func translate(err error) error {
	answer, ok := errors.AsType[libvirt.Error](err)
	if !ok {
		return err
	}
	switch libvirt.ErrorNumber(answer.Code) {
	case libvirt.ErrNoDomain, libvirt.ErrOperationInvalid:
		return fmt.Errorf("%w: %w", ErrNoDomain, err)
	}
	return err
}
