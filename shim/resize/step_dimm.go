package resize

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/mooring-vm/mooring/shim/virt"
)

// AttachDIMM plugs a DIMM. A new DIMM in the domain's device list confirms it. A rollback asks the
// guest to release the DIMM, which the guest may refuse.
type AttachDIMM struct {
	Cell      int           `json:"cell"`
	Size      uint64        `json:"size"`
	Known     []string      `json:"known"` // aliases of the memory devices before the step
	SizeLimit SizeLimit     `json:"room"`
	Within    time.Duration `json:"bound"`
}

// String implements fmt.Stringer.
func (s AttachDIMM) String() string {
	return fmt.Sprintf("plug a DIMM of %s into NUMA cell %d", formatBytes(s.Size), s.Cell)
}

// Timeout implements Step.
func (s AttachDIMM) Timeout() time.Duration { return s.Within }

func (AttachDIMM) kind() kind { return kindAttachDIMM }

func (s AttachDIMM) checkStart(o Observed) error {
	if err := checkDevices(o, s.Known); err != nil {
		return err
	}
	return s.SizeLimit.allows(o, o.PossibleMemory()+s.Size, o.Domain.VCPUs.Plugged)
}

func (s AttachDIMM) execute(ctx context.Context, h handles, _ Observed) error {
	return h.domain.AttachDIMM(ctx, s.Cell, s.Size)
}

// attached finds the DIMM that the step has plugged.
func (s AttachDIMM) attached(o Observed) (virt.MemoryDevice, bool) {
	for _, d := range o.Domain.Memory.Devices {
		if d.Model == virt.DIMM && d.Cell == s.Cell && d.Size == s.Size &&
			!slices.Contains(s.Known, d.Alias) {
			return d, true
		}
	}
	return virt.MemoryDevice{}, false
}

func (s AttachDIMM) verify(o Observed) error {
	if _, ok := s.attached(o); !ok {
		return fmt.Errorf("the domain has no new DIMM of %s in NUMA cell %d",
			formatBytes(s.Size), s.Cell)
	}
	return nil
}

func (s AttachDIMM) rollback(o Observed) Step {
	d, ok := s.attached(o)
	if !ok {
		return nil
	}
	return DetachDIMM{
		Alias: d.Alias, Cell: d.Cell, Size: d.Size, SizeLimit: s.SizeLimit, Within: s.Within,
	}
}

// DetachDIMM asks the guest to release a DIMM. The DIMM's absence in the domain's device list
// confirms it. A rollback plugs a DIMM of the same size. A DIMM that the guest still has may be
// released later.
type DetachDIMM struct {
	Alias     string        `json:"alias"`
	Cell      int           `json:"cell"`
	Size      uint64        `json:"size"`
	SizeLimit SizeLimit     `json:"room"` // applies to plugging in a rollback
	Within    time.Duration `json:"bound"`
}

// String implements fmt.Stringer.
func (s DetachDIMM) String() string {
	return fmt.Sprintf("unplug %s, a DIMM of %s", s.Alias, formatBytes(s.Size))
}

// Timeout implements Step.
func (s DetachDIMM) Timeout() time.Duration { return s.Within }

func (DetachDIMM) kind() kind { return kindDetachDIMM }

func (s DetachDIMM) execute(ctx context.Context, h handles, _ Observed) error {
	return h.domain.DetachDIMM(ctx, s.Alias)
}

func (s DetachDIMM) verify(o Observed) error {
	if _, ok := o.device(s.Alias); ok {
		return fmt.Errorf("the guest has not released %s", s.Alias)
	}
	return nil
}

func (s DetachDIMM) rollback(o Observed) Step {
	if _, ok := o.device(s.Alias); ok {
		return nil
	}
	return AttachDIMM{
		Cell: s.Cell, Size: s.Size, Known: aliases(o.Domain.Memory),
		SizeLimit: s.SizeLimit, Within: s.Within,
	}
}
