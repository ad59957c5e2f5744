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
	// ErrNoDomain says that libvirt has no running domain of that UUID. It is no
	// proof that its process is gone.
	ErrNoDomain = errors.New("libvirt runs no such domain")

	// ErrOtherProcess says that another process runs the domain than the one that
	// was meant.
	ErrOtherProcess = errors.New("another process runs the domain")
)

// Daemon is libvirtd or virtqemud. Each call makes a connection of its own; methods
// may be called from several goroutines at once.
type Daemon struct {
	Socket string // such as /run/libvirt/libvirt-sock
}

// Shutdown has the guest of a domain asked to shut down, by its ACPI power button. It
// does not wait until the guest does, and nothing says whether it will.
//
// ACPI is asked for in so many words: by default libvirt asks an agent in the guest
// first, and waits a minute for one that does not answer.
//
// The daemon may take its time to answer, and know the domain by its UUID alone: it may
// have ended and been started anew by then. So meant is asked just before: where it
// returns an error, such as that of [Records.Runs], nothing is done.
//
// It blocks until the daemon has answered or ctx is done. Where libvirt has no such
// domain, or it does not run, the error wraps [ErrNoDomain].
func (d Daemon) Shutdown(ctx context.Context, domain string, meant func() error) error {
	id, err := uuid.Parse(domain)
	if err != nil {
		return fmt.Errorf("shut down domain %q: want a UUID", domain)
	}
	err = d.call(ctx, func(l *libvirt.Libvirt) error { return shutdown(l, libvirt.UUID(id), meant) })
	if err != nil {
		return fmt.Errorf("shut down domain %s: %w", domain, err)
	}
	return nil
}

// asked is what is asked of libvirt.
type asked interface {
	DomainLookupByUUID(id libvirt.UUID) (libvirt.Domain, error)
	DomainShutdownFlags(d libvirt.Domain, flags libvirt.DomainShutdownFlagValues) error
}

func shutdown(l asked, id libvirt.UUID, meant func() error) error {
	found, err := l.DomainLookupByUUID(id)
	if err != nil {
		return err
	}
	if err := meant(); err != nil {
		return fmt.Errorf("not asked: %w", err)
	}
	return l.DomainShutdownFlags(found, libvirt.DomainShutdownAcpiPowerBtn)
}

// call makes a connection for one use. It is closed when ctx is done, which ends
// whatever waits for an answer.
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

// translate finds out that there is nothing to shut down.
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
