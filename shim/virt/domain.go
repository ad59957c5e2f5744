package virt

import (
	"context"
	"errors"
)

// Errors that callers tell apart.
var (
	// ErrNoDomain: libvirt knows no such domain.
	ErrNoDomain = errors.New("no such domain")

	// ErrNotRunning: what was asked for needs a domain that runs.
	ErrNotRunning = errors.New("the domain does not run")

	// ErrUnsupported: this libvirt, hypervisor or domain cannot do it.
	ErrUnsupported = errors.New("not supported")

	// ErrConnection: libvirt is away, and whether the call was carried out is not
	// known. It is no answer about the domain.
	ErrConnection = errors.New("no connection to libvirt")
)

// Domain is one domain. Calls block until libvirt has answered, ctx is done or the
// connection is lost; a call that ctx ended may still be carried out. Methods that
// change something change the running domain and its definition, in one call where
// libvirt has one; an error says so where only the definition could not be changed. They
// return when libvirt has taken the order: what the guest made of it is in State.
//
// All methods may be called from several goroutines at once.
type Domain interface {
	// Phase reads the phase alone: one short question, which libvirt answers also while
	// another call changes the domain, or hangs. It is for those who look again and again.
	// A domain that was started anew since it was found is another one: [ErrNoDomain].
	Phase(ctx context.Context) (Phase, error)

	// Life reads Phase, and whether the domain is migrated: a second short question, which
	// waits for a call that changes the domain.
	Life(ctx context.Context) (Life, error)

	// State reads what the domain is, and asks the guest for the vCPUs that it uses. A
	// guest may take seconds to answer, or to be given up.
	State(ctx context.Context) (State, error)

	// StateWithoutGuest is State without a question to the guest: VCPUs.Online is
	// Unknown.
	StateWithoutGuest(ctx context.Context) (State, error)

	// XML returns the definition of the running domain.
	XML(ctx context.Context) (string, error)

	// SetVCPUs plugs or unplugs vCPUs until there are n.
	SetVCPUs(ctx context.Context, n int) error

	// RequestMemory asks the guest to have that much of a virtio-mem device.
	RequestMemory(ctx context.Context, alias string, bytes uint64) error

	// AttachDIMM plugs a DIMM of that size into a NUMA cell of the guest.
	AttachDIMM(ctx context.Context, cell int, bytes uint64) error

	// DetachDIMM asks the guest to give a DIMM back. It may refuse, or never answer.
	DetachDIMM(ctx context.Context, alias string) error

	// SetBalloon asks the guest to have that much memory, devices included.
	SetBalloon(ctx context.Context, bytes uint64) error

	// SetBandwidth sets period, quota and shares in one call. Zero fields are left
	// as they are.
	SetBandwidth(ctx context.Context, b Bandwidth) error

	// Shutdown asks the guest to shut down, in that one way.
	Shutdown(ctx context.Context, how Shutdown) error

	// Destroy ends the domain at once.
	Destroy(ctx context.Context) error

	// Changed is sent to when the domain may have changed in any respect that State
	// tells. It is closed when ctx is done. Events may be lost while libvirt is away;
	// one is sent when it is back.
	Changed(ctx context.Context) (<-chan struct{}, error)
}

// Shutdown is a way to ask a guest to shut down.
type Shutdown string

// The ways to ask.
const (
	ACPI       Shutdown = "acpi"
	GuestAgent Shutdown = "guest-agent"
)
