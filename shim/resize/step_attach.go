package resize

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/mooring-vm/mooring/shim/virt"
)

// AttachVirtioMem attaches a virtio-mem device and requests memory from it. The guest's size of the
// device confirms it. A rollback requests nothing from the device, which stays attached: QEMU can
// detach it only after the guest has released all of it.
type AttachVirtioMem struct {
	Cell      int           `json:"cell"`
	Size      uint64        `json:"size"`
	Block     uint64        `json:"block"`
	Requested uint64        `json:"requested"`
	Known     []string      `json:"known"` // aliases of the memory devices before the step
	SizeLimit SizeLimit     `json:"room"`
	Within    time.Duration `json:"bound"`
}

// String implements fmt.Stringer.
func (s AttachVirtioMem) String() string {
	return fmt.Sprintf("attach a virtio-mem device of %s to NUMA cell %d, with %s for the guest",
		formatBytes(s.Size), s.Cell, formatBytes(s.Requested))
}

// Timeout implements Step.
func (s AttachVirtioMem) Timeout() time.Duration { return s.Within }

func (AttachVirtioMem) kind() kind { return kindAttachVirtioMem }

func (s AttachVirtioMem) checkStart(o Observed) error { return checkDevices(o, s.Known) }

func (s AttachVirtioMem) checkLimits(o Observed) error {
	return s.SizeLimit.allows(o, o.PossibleMemory()+s.Requested, o.Domain.VCPUs.Plugged)
}

func (s AttachVirtioMem) execute(ctx context.Context, h handles, _ Observed) error {
	return h.domain.AttachVirtioMem(ctx, virt.MemoryDevice{
		Model: virt.VirtioMem, Cell: s.Cell, Size: s.Size, Block: s.Block, Requested: s.Requested,
	})
}

// attached finds the step's new device.
func (s AttachVirtioMem) attached(o Observed) (virt.MemoryDevice, bool) {
	all := o.Domain.Memory.Devices
	at := slices.IndexFunc(all, func(d virt.MemoryDevice) bool {
		return d.Model == virt.VirtioMem && !slices.Contains(s.Known, d.Alias)
	})
	if at < 0 {
		return virt.MemoryDevice{}, false
	}
	return all[at], true
}

// request is the part of the step that follows the attachment.
func (s AttachVirtioMem) request(d virt.MemoryDevice) RequestMemory {
	return RequestMemory{
		Alias: d.Alias, To: s.Requested, SizeLimit: s.SizeLimit, Within: s.Within,
	}
}

func (s AttachVirtioMem) verify(o Observed) error {
	d, ok := s.attached(o)
	if !ok {
		return fmt.Errorf("the domain has no new virtio-mem device of %s", formatBytes(s.Size))
	}
	return s.request(d).verify(o)
}

func (s AttachVirtioMem) remaining(o Observed) uint64 {
	d, _ := s.attached(o)
	return distance(d.Current, s.Requested)
}

func (s AttachVirtioMem) withdrawal(o Observed) Step {
	d, _ := s.attached(o)
	return s.request(d).withdrawal(o)
}

func (s AttachVirtioMem) rollback(o Observed) Step {
	d, ok := s.attached(o)
	if !ok {
		return nil
	}
	return s.request(d).rollback(o)
}

// checkDevices compares the memory devices of the domain with those at planning time.
func checkDevices(o Observed, known []string) error {
	if m := o.Domain.Memory; !slices.Equal(aliases(m), known) {
		return fmt.Errorf("the domain has the memory devices %q, the plan expected %q",
			aliases(m), known)
	}
	return nil
}
