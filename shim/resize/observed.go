package resize

import (
	"context"
	"fmt"
	"math"

	"github.com/mooring-vm/mooring/memlock/domain"
	"github.com/mooring-vm/mooring/shim/resize/target"
	"github.com/mooring-vm/mooring/shim/virt"
)

// NoLimit is an infinite limit.
const NoLimit uint64 = math.MaxUint64

// Observed is the current state of a VM and of its limits on the node.
type Observed struct {
	Domain     virt.State
	Definition domain.Definition // XML of the running domain
	Limits     Limits
}

// Limits are the kernel's limits and the node's free memory, in bytes, as the agent reads them.
type Limits struct {
	// PodMax and ContainerMax are memory.max of the cgroups of pod and container.
	PodMax, ContainerMax uint64

	// Lock is QEMU's memory-lock limit (RLIMIT_MEMLOCK), and Locked its locked memory.
	Lock, Locked uint64

	// Floor is the launcher's own memory-lock limit. Lock cannot fall below it.
	Floor uint64

	// Available is the node's memory that this pod can still get.
	Available uint64

	// Start identifies the VM process: its pid and its start time. It is empty if the agent does
	// not know them.
	Start string
}

// MemoryMax returns the effective memory.max of the container.
func (s Limits) MemoryMax() uint64 { return min(s.PodMax, s.ContainerMax) }

// Read observes a VM without a query to its guest, so VCPUs.Online is virt.Unknown. It blocks until
// libvirt and the agent answer. It returns their errors, or an error for an unreadable definition.
func Read(ctx context.Context, d virt.Domain, n Node) (Observed, error) {
	return new(reader).read(ctx, d, n)
}

// reader observes a VM. It parses a definition only if the text has changed.
type reader struct {
	askGuest bool // query the guest for its online vCPUs

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
		return Observed{}, fmt.Errorf("read the limits from the agent: %w", err)
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

// GuestMemory returns the guest's memory in bytes: boot memory and plugged memory, without the
// balloon's part.
func (o Observed) GuestMemory() uint64 {
	return afterBalloon(o.Domain.Memory, pluggedMemory(o.Domain.Memory, currentSize))
}

// addedMemory returns the bytes that a target adds to the guest.
func (o Observed) addedMemory(t target.Target) uint64 {
	return max(t.GuestMemory(), o.GuestMemory()) - o.GuestMemory()
}

// PossibleMemory returns the memory that the guest has or can take without a further request. It
// includes unfinished requests to virtio-mem devices.
func (o Observed) PossibleMemory() uint64 {
	memory := o.Domain.Memory
	more := pluggedMemory(memory, possibleSize) - pluggedMemory(memory, currentSize)
	return o.GuestMemory() + more
}

// pluggedMemory sums the boot memory and the given size of each device.
func pluggedMemory(m virt.Memory, of func(virt.MemoryDevice) uint64) uint64 {
	sum := m.Boot
	for _, d := range m.Devices {
		sum += of(d)
	}
	return sum
}

// currentSize returns the guest's size of a device. It is 0 for other models: an NVDIMM, for
// example, is a disk to the guest.
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

// afterBalloon returns the part of memory that the balloon leaves. A balloon value above the memory
// is outdated, because the guest has released memory since.
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

// RequiredLock returns libvirt's memory-lock requirement for QEMU in bytes. It is 0 without a
// requirement and NoLimit for unlimited. The error is a value beyond int64.
func (o Observed) RequiredLock() (uint64, error) {
	required, _, err := requiredLock(o.Definition)
	return required, err
}

// requiredLock returns libvirt's requirement. If known is false, QEMU may need more.
func requiredLock(d domain.Definition) (required uint64, known bool, err error) {
	r, err := d.Limit()
	switch {
	case err != nil:
		return 0, false, err
	case r.Unlimited:
		return NoLimit, true, nil
	}
	return uint64(r.Bytes), len(r.Unknown) == 0, nil
}
