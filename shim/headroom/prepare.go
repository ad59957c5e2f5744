package headroom

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"math/bits"
	"strings"
)

// Device is what a domain's memory grows by.
type Device string

// The devices. Automatic is virtio-mem, or DIMM where the domain rules virtio-mem out.
const (
	Automatic Device = ""
	VirtioMem Device = "virtio-mem"
	DIMM      Device = "dimm"
)

// DefaultSlots is how many DIMM slots a domain gets.
const DefaultSlots = 16

// What libvirt and QEMU take.
const (
	maxSlots    = 256
	minBlock    = 2       // MiB: a transparent huge page
	maxCapacity = 1 << 42 // MiB, and so far from any overflow
)

// Options say how far a domain is to be able to grow.
type Options struct {
	Memory   int64  // MiB, the memory that it starts with included; 0 or less: the host's
	CPUs     int    // vCPUs; 0 or less: the host's
	Device   Device // what its memory grows by
	Slots    int    // for DIMMs, 1 to 256; 0: DefaultSlots
	Block    int64  // of virtio-mem, in MiB, a power of two; 0: 2 MiB, or the domain's huge page
	HugePage int64  // MiB, the host's huge page that the VM has where its XML gives no size; 0: 2 MiB
	Host     Host   // looked at where a capacity is 0 or less
}

// Result is a prepared domain.
type Result struct {
	XML     []byte
	Changed bool
	Notes   []string // what was changed or kept, and why, in sentences
}

// RefusedError says why a domain can get no headroom, with every reason that there is.
type RefusedError struct{ Reasons []string }

func (e *RefusedError) Error() string {
	return "the domain can get no headroom: " + strings.Join(e.Reasons, "; ")
}

// Prepare gives a domain the headroom to grow to the capacities of o, and leaves all
// other bytes of its XML as they are. vCPUs and memory are looked at apart: what has
// headroom keeps it, be it smaller than asked for, and what is at its capacity or above
// stays. So a prepared domain is prepared by returning it.
//
// The errors are options that make no sense, XML that is no domain's, and
// [RefusedError]; a domain in which nothing would change is never refused. text is not
// changed. It does not block, and may be called concurrently.
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

// Check returns what is wrong with the options.
func (o Options) Check() error { return o.complete() }

// complete fills in what is left to defaults.
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
		return errors.New("memory capacity: neither given nor known of the host")
	case o.Memory > maxCapacity:
		return fmt.Errorf("memory capacity %d MiB: want at most %d", o.Memory, int64(maxCapacity))
	case o.CPUs <= 0:
		return errors.New("CPU capacity: neither given nor known of the host")
	case o.Device != Automatic && o.Device != VirtioMem && o.Device != DIMM:
		return fmt.Errorf("memory device %q: want %s or %s", o.Device, VirtioMem, DIMM)
	case o.Slots < 1 || o.Slots > maxSlots:
		return fmt.Errorf("memory slots %d: want 1 to %d", o.Slots, maxSlots)
	case o.Block != 0 && (o.Block < minBlock || o.Block > maxCapacity || bits.OnesCount64(uint64(o.Block)) != 1):
		return fmt.Errorf("memory block of %d MiB: want a power of two from %d on", o.Block, minBlock)
	}
	return nil
}

// plan is what is to become of a domain.
type plan struct {
	*machine
	options Options

	newVCPUMaximum int    // 0: they stay as they are
	device         Device // Automatic: the memory stays as it is
	block          uint64 // of virtio-mem, in KiB
	addedSize      uint64 // of what is added, in KiB

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
