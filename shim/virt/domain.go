package virt

import "context"

// Domain is one libvirt domain. Calls block until libvirt answers, ctx ends or the connection is
// lost. libvirt may still execute a call after ctx has ended it.
//
// Methods that change the domain change its definition too, in one call where libvirt has one. If
// only the definition could not be changed, the error says so. They return when libvirt has
// accepted the change. [State] shows how the guest responded.
//
// All methods are safe for concurrent use.
type Domain interface {
	// Phase reads only the phase, for frequent polling. libvirt answers this short query even while
	// another call changes the domain or hangs. After a restart of the domain the error is
	// [ErrNoDomain]: a new start is a different domain.
	Phase(ctx context.Context) (Phase, error)

	// Life reads the phase, and whether a migration is running. The second query waits for calls
	// that change the domain.
	Life(ctx context.Context) (Life, error)

	// State reads the domain, and asks the guest agent for the number of online vCPUs. The guest
	// may need seconds to answer, or may not answer at all.
	State(ctx context.Context) (State, error)

	// StateWithoutGuest is State without the query to the guest: VCPUs.Online is Unknown.
	StateWithoutGuest(ctx context.Context) (State, error)

	// XML returns the XML of the running domain.
	XML(ctx context.Context) (string, error)

	// SetVCPUs plugs or unplugs vCPUs until the domain has n.
	SetVCPUs(ctx context.Context, n int) error

	// RequestMemory sets the requested size of a virtio-mem device.
	RequestMemory(ctx context.Context, alias string, bytes uint64) error

	// AttachVirtioMem attaches a virtio-mem device with the Cell, Size, Block and Requested size of
	// d. libvirt since 9.5 needs no memory slot for it.
	AttachVirtioMem(ctx context.Context, d MemoryDevice) error

	// AttachDIMM plugs a DIMM of the given size into a NUMA cell of the guest.
	AttachDIMM(ctx context.Context, cell int, bytes uint64) error

	// DetachDIMM asks the guest to release a DIMM. The guest may refuse or never answer.
	DetachDIMM(ctx context.Context, alias string) error

	// SetBalloon sets the memory that the balloon leaves to the guest, memory devices included.
	SetBalloon(ctx context.Context, bytes uint64) error

	// SetBandwidth sets period, quota and shares in one call. Zero fields keep their values.
	SetBandwidth(ctx context.Context, b Bandwidth) error

	// Shutdown asks the guest to shut down, by the given method only.
	Shutdown(ctx context.Context, how Shutdown) error

	// Destroy ends the domain immediately.
	Destroy(ctx context.Context) error

	// Changed returns a channel that receives after every possible change of State. The channel is
	// closed when ctx ends. It also receives when libvirt is lost, and after each reconnect, because
	// events may be lost meanwhile. libvirt has no event for the start of a migration, but one for
	// the first transfer of memory.
	Changed(ctx context.Context) (<-chan struct{}, error)
}

// Shutdown is a method of asking a guest to shut down.
type Shutdown string

// The shutdown methods.
const (
	ACPI       Shutdown = "acpi"
	GuestAgent Shutdown = "guest-agent"
)
