package resize

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/mooring-vm/mooring/shim/virt"
)

// AttachDIMM plugs a DIMM.
type AttachDIMM struct {
	Cell      int           `json:"cell"`
	Size      uint64        `json:"size"`
	Known     []string      `json:"known"` // the devices that there were
	SizeLimit SizeLimit     `json:"room"`
	Within    time.Duration `json:"bound"`
}

// String implements fmt.Stringer.
func (s AttachDIMM) String() string {
	return fmt.Sprintf("plug a DIMM of %s into NUMA cell %d", formatBytes(s.Size), s.Cell)
}

// Within implements Step.
func (s AttachDIMM) Timeout() time.Duration { return s.Within }

// ConfirmedBy implements Step.
func (AttachDIMM) ConfirmedBy() string { return "the domain's devices, among which it is" }

// UndoneBy implements Step.
func (AttachDIMM) RollbackMethod() string {
	return "asking the guest to give the DIMM back, which it may refuse"
}

func (AttachDIMM) kind() kind { return kindAttachDIMM }

func (s AttachDIMM) checkStart(o Observed) error {
	m := o.Domain.Memory
	if !slices.Equal(aliases(m), s.Known) {
		return fmt.Errorf("the domain has the memory devices %q, and had %q when it was planned", aliases(m), s.Known)
	}
	return s.SizeLimit.allows(o, o.PossibleMemory()+s.Size, o.Domain.VCPUs.Plugged)
}

func (s AttachDIMM) execute(ctx context.Context, h handles, _ Observed) error {
	return h.domain.AttachDIMM(ctx, s.Cell, s.Size)
}

// found is the DIMM that was plugged.
func (s AttachDIMM) attached(o Observed) (virt.MemoryDevice, bool) {
	for _, d := range o.Domain.Memory.Devices {
		if d.Model == virt.DIMM && d.Cell == s.Cell && d.Size == s.Size && !slices.Contains(s.Known, d.Alias) {
			return d, true
		}
	}
	return virt.MemoryDevice{}, false
}

func (s AttachDIMM) verify(o Observed) error {
	if _, ok := s.attached(o); !ok {
		return fmt.Errorf("the domain has no new DIMM of %s in NUMA cell %d", formatBytes(s.Size), s.Cell)
	}
	return nil
}

func (s AttachDIMM) rollback(o Observed) Step {
	d, ok := s.attached(o)
	if !ok {
		return nil
	}
	return DetachDIMM{Alias: d.Alias, Cell: d.Cell, Size: d.Size, SizeLimit: s.SizeLimit, Within: s.Within}
}

// DetachDIMM asks the guest to give a DIMM back.
type DetachDIMM struct {
	Alias     string        `json:"alias"`
	Cell      int           `json:"cell"`
	Size      uint64        `json:"size"`
	SizeLimit SizeLimit     `json:"room"` // for plugging it again
	Within    time.Duration `json:"bound"`
}

// String implements fmt.Stringer.
func (s DetachDIMM) String() string {
	return fmt.Sprintf("ask the guest to give back %s, a DIMM of %s", s.Alias, formatBytes(s.Size))
}

// Within implements Step.
func (s DetachDIMM) Timeout() time.Duration { return s.Within }

// ConfirmedBy implements Step.
func (DetachDIMM) ConfirmedBy() string { return "the domain's devices, among which it is no more" }

// UndoneBy implements Step.
func (DetachDIMM) RollbackMethod() string {
	return "plugging one of that size; one that the guest has not given back yet may still leave"
}

func (DetachDIMM) kind() kind { return kindDetachDIMM }

func (s DetachDIMM) execute(ctx context.Context, h handles, _ Observed) error {
	return h.domain.DetachDIMM(ctx, s.Alias)
}

func (s DetachDIMM) verify(o Observed) error {
	if _, ok := o.device(s.Alias); ok {
		return fmt.Errorf("the guest has not given %s back", s.Alias)
	}
	return nil
}

func (s DetachDIMM) rollback(o Observed) Step {
	if _, ok := o.device(s.Alias); ok {
		return nil
	}
	return AttachDIMM{Cell: s.Cell, Size: s.Size, Known: aliases(o.Domain.Memory), SizeLimit: s.SizeLimit, Within: s.Within}
}
