package resize

import (
	"context"
	"fmt"
	"math"

	"github.com/mooring-vm/mooring/memlock/domain"
	"github.com/mooring-vm/mooring/shim/virt"
)

// NoLimit is the limit that is none, and the room that is not known to end.
const NoLimit uint64 = math.MaxUint64

// Is is what a VM and its place on the node are at one moment.
type Observed struct {
	Domain     virt.State
	Definition domain.Definition // of the running domain
	Limits     Limits
}

// Seen is what the node's agent sees. Amounts are bytes.
type Limits struct {
	// PodMax and ContainerMax are the memory.max of the pod's cgroup and of its
	// container's.
	PodMax, ContainerMax uint64

	// Lock is the memory lock (RLIMIT_MEMLOCK) of QEMU, and Locked what it has locked.
	Lock, Locked uint64

	// Floor is what Lock cannot be lowered below: what the launcher was given.
	Floor uint64

	// Room is how much memory the node has yet for this pod.
	Available uint64
}

// Max is how much memory the container may have, its pod considered.
func (s Limits) MemoryMax() uint64 { return min(s.PodMax, s.ContainerMax) }

// Read reads what a VM is, without asking its guest: VCPUs.Online is virt.Unknown. It
// blocks as long as libvirt and the agent take to answer. The errors are theirs, and a
// definition that cannot be read.
func Read(ctx context.Context, d virt.Domain, n Node) (Observed, error) {
	return new(reader).read(ctx, d, n)
}

// reader reads what a VM is, and parses a definition only when it has changed.
type reader struct {
	askGuest bool // the guest is asked for the vCPUs that it uses

	text   string
	parsed domain.Definition
}

func (r *reader) read(ctx context.Context, d virt.Domain, n Node) (Observed, error) {
	state, err := r.state(ctx, d)
	if err != nil {
		return Observed{}, fmt.Errorf("read the state of the domain: %w", err)
	}
	definition, err := r.definition(ctx, d)
	if err != nil {
		return Observed{}, fmt.Errorf("read the definition of the domain: %w", err)
	}
	seen, err := n.Limits(ctx)
	if err != nil {
		return Observed{}, fmt.Errorf("ask the agent for limits: %w", err)
	}
	return Observed{Domain: state, Definition: definition, Limits: seen}, nil
}

func (r *reader) state(ctx context.Context, d virt.Domain) (virt.State, error) {
	if r.askGuest {
		return d.State(ctx)
	}
	return d.StateWithoutGuest(ctx)
}

func (r *reader) definition(ctx context.Context, d virt.Domain) (domain.Definition, error) {
	text, err := d.XML(ctx)
	if err != nil || text == r.text && text != "" {
		return r.parsed, err
	}
	parsed, err := domain.Parse([]byte(text))
	if err == nil {
		r.text, r.parsed = text, parsed
	}
	return parsed, err
}

// Guest is how much memory the guest has, in bytes: what it booted with and what it
// took of its devices, less what is in the balloon.
func (o Observed) GuestMemory() uint64 {
	return afterBalloon(o.Domain.Memory, pluggedMemory(o.Domain.Memory, currentSize))
}

// Possible is how much memory the guest has or can take without being asked again, in
// bytes: also what of a virtio-mem it was asked to take and has not yet.
func (o Observed) PossibleMemory() uint64 {
	memory := o.Domain.Memory
	more := pluggedMemory(memory, possibleSize) - pluggedMemory(memory, currentSize)
	return o.GuestMemory() + more
}

// plugged is the memory that the guest booted with, and its devices.
func pluggedMemory(m virt.Memory, of func(virt.MemoryDevice) uint64) uint64 {
	sum := m.Boot
	for _, d := range m.Devices {
		sum += of(d)
	}
	return sum
}

// current is what the guest has of a device. What is neither virtio-mem nor DIMM, such as
// an NVDIMM, is a disk to it.
func currentSize(d virt.MemoryDevice) uint64 {
	switch d.Model {
	case virt.VirtioMem:
		return d.Current
	case virt.DIMM:
		return d.Size
	}
	return 0
}

func possibleSize(d virt.MemoryDevice) uint64 {
	if d.Model == virt.VirtioMem {
		return max(d.Current, d.Requested)
	}
	return currentSize(d)
}

func capacity(d virt.MemoryDevice) uint64 { return d.Size }

// ballooned is what the balloon leaves of so much memory. A balloon that is told to
// leave more than there is has not been heard of since memory left.
func afterBalloon(m virt.Memory, memory uint64) uint64 {
	if m.Ballooned && m.Balloon > 0 {
		return min(m.Balloon, memory)
	}
	return memory
}

// device finds a memory device by its alias.
func (o Observed) device(alias string) (virt.MemoryDevice, bool) {
	for _, d := range o.Domain.Memory.Devices {
		if d.Alias == alias {
			return d, true
		}
	}
	return virt.MemoryDevice{}, false
}

// LockWanted is what libvirt wants QEMU to be able to lock, in bytes: 0 where it does
// not care, NoLimit where it is to be unlimited. The error is one beyond an int64.
func (o Observed) RequiredLock() (uint64, error) { return requiredLock(o.Definition) }

func requiredLock(d domain.Definition) (uint64, error) {
	r, err := d.Limit()
	switch {
	case err != nil:
		return 0, err
	case r.Unlimited:
		return NoLimit, nil
	}
	return uint64(r.Bytes), nil
}
