package headroom

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"math/bits"
	"strings"
)

// Device is the kind of device that adds memory to a domain.
type Device string

// The kinds. Automatic is virtio-mem, or DIMM for a domain that excludes virtio-mem.
const (
	Automatic Device = ""
	VirtioMem Device = "virtio-mem"
	DIMM      Device = "dimm"
)

// DefaultSlots is the default number of DIMM slots.
const DefaultSlots = 16

// Limits of libvirt and QEMU.
const (
	maxSlots    = 256
	minBlock    = 2       // MiB: a transparent huge page
	maxCapacity = 1 << 42 // MiB; prevents overflows
)

// Options set the capacity of a domain.
type Options struct {
	Memory   int64  // MiB, boot memory included; 0 or less: the host's
	CPUs     int    // vCPUs; 0 or less: the host's
	Device   Device // kind of memory device
	Slots    int    // DIMM slots, 1 to 256; 0: DefaultSlots
	Block    int64  // virtio-mem block size in MiB, a power of two; 0: 2, or the domain's huge page
	HugePage int64  // MiB; size of huge pages without a size in the XML; 0: 2 MiB
	Host     Host   // used for capacities of 0 or less
}

// Result is a prepared domain.
type Result struct {
	XML     []byte
	Changed bool
	Notes   []string // sentences about each change and each unchanged part
}

// RefusedError lists all reasons why a domain can get no headroom.
type RefusedError struct{ Reasons []string }

func (e *RefusedError) Error() string {
	return "the domain can get no headroom: " + strings.Join(e.Reasons, "; ")
}

// Prepare raises a domain's maximum vCPUs and memory to the capacities of o, and leaves all other
// bytes of its XML as they are. vCPUs and memory are independent. A resource stays as it is if it
// already has headroom, however small, or has reached its capacity. So preparing a prepared domain
// changes nothing.
//
// The errors are invalid options, XML that is not a domain, and [RefusedError]. A domain without
// any change is never refused. text is not modified. Prepare does not block and is safe for
// concurrent use.
func Prepare(text []byte, o Options) (Result, error) {
	if err := o.complete(); err != nil {
		return Result{}, err
	}
	m, err := readMachine(text, max(o.HugePage, minBlock))
	if err != nil {
		return Result{}, err
	}
	p := &plan{machine: m, options: o}
	p.planVCPUs()
	p.planMemory()
	if !p.growsVCPUs() && !p.growsMemory() {
		return Result{XML: bytes.Clone(text), Notes: p.notes}, nil
	}
	if p.refuse(); len(p.reasons) > 0 {
		return Result{}, &RefusedError{p.reasons}
	}
	p.apply()
	return Result{XML: p.result(), Changed: true, Notes: p.notes}, nil
}

// Check returns an error for invalid options.
func (o Options) Check() error { return o.complete() }

// complete fills in defaults and checks the options.
func (o *Options) complete() error {
	if o.Memory <= 0 {
		o.Memory = o.Host.Memory
	}
	if o.CPUs <= 0 {
		o.CPUs = o.Host.CPUs
	}
	o.Slots = cmp.Or(o.Slots, DefaultSlots)
	switch {
	case o.Memory <= 0:
		return errors.New("memory capacity: missing, and the host's memory is unknown")
	case o.Memory > maxCapacity:
		return fmt.Errorf("memory capacity %d MiB: want at most %d", o.Memory, int64(maxCapacity))
	case o.CPUs <= 0:
		return errors.New("CPU capacity: missing, and the host's CPUs are unknown")
	case o.Device != Automatic && o.Device != VirtioMem && o.Device != DIMM:
		return fmt.Errorf("memory device %q: want %s or %s", o.Device, VirtioMem, DIMM)
	case o.Slots < 1 || o.Slots > maxSlots:
		return fmt.Errorf("memory slots %d: want 1 to %d", o.Slots, maxSlots)
	case o.Block != 0 && (o.Block < minBlock || o.Block > maxCapacity || bits.OnesCount64(
		uint64(o.Block),
	) != 1):
		return fmt.Errorf(
			"memory block of %d MiB: want a power of two, at least %d", o.Block, minBlock,
		)
	}
	return nil
}

// plan holds the planned changes of a domain.
type plan struct {
	*machine
	options Options

	newVCPUMaximum int    // 0: unchanged
	device         Device // Automatic: memory is unchanged
	block          uint64 // KiB; virtio-mem block size
	addedSize      uint64 // KiB; added to the domain's maximum

	notes   []string
	reasons []string
}

func (p *plan) growsVCPUs() bool  { return p.newVCPUMaximum > 0 }
func (p *plan) growsMemory() bool { return p.device != Automatic }

func (p *plan) addNote(format string, args ...any) {
	p.notes = append(p.notes, fmt.Sprintf(format, args...))
}

func (p *plan) addReason(format string, args ...any) {
	p.reasons = append(p.reasons, fmt.Sprintf(format, args...))
}

func (p *plan) apply() {
	if p.growsVCPUs() {
		p.applyVCPUs()
	}
	if p.growsMemory() {
		p.applyMemory()
	}
	p.applyCells()
}
