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
	Cell  int           `json:"cell"`
	Size  uint64        `json:"size"`
	Known []string      `json:"known"` // the devices that there were
	Room  Room          `json:"room"`
	Bound time.Duration `json:"bound"`
}

// String implements fmt.Stringer.
func (s AttachDIMM) String() string {
	return fmt.Sprintf("plug a DIMM of %s into NUMA cell %d", show(s.Size), s.Cell)
}

// Within implements Step.
func (s AttachDIMM) Within() time.Duration { return s.Bound }

// ConfirmedBy implements Step.
func (AttachDIMM) ConfirmedBy() string { return "the domain's devices, among which it is" }

// UndoneBy implements Step.
func (AttachDIMM) UndoneBy() string {
	return "asking the guest to give the DIMM back, which it may refuse"
}

func (AttachDIMM) kind() kind { return kindAttachDIMM }

func (s AttachDIMM) check(is Is) error {
	m := is.Domain.Memory
	if !slices.Equal(aliases(m), s.Known) {
		return fmt.Errorf("the domain has the memory devices %q, and had %q when it was planned", aliases(m), s.Known)
	}
	return s.Room.check(is, is.Possible()+s.Size, is.Domain.VCPUs.Plugged)
}

func (s AttachDIMM) do(ctx context.Context, h hands, _ Is) error {
	return h.domain.AttachDIMM(ctx, s.Cell, s.Size)
}

// found is the DIMM that was plugged.
func (s AttachDIMM) found(is Is) (virt.MemoryDevice, bool) {
	for _, d := range is.Domain.Memory.Devices {
		if d.Model == virt.DIMM && d.Cell == s.Cell && d.Size == s.Size && !slices.Contains(s.Known, d.Alias) {
			return d, true
		}
	}
	return virt.MemoryDevice{}, false
}

func (s AttachDIMM) done(is Is) error {
	if _, ok := s.found(is); !ok {
		return fmt.Errorf("the domain has no new DIMM of %s in NUMA cell %d", show(s.Size), s.Cell)
	}
	return nil
}

func (s AttachDIMM) undo(is Is) Step {
	d, ok := s.found(is)
	if !ok {
		return nil
	}
	return DetachDIMM{Alias: d.Alias, Cell: d.Cell, Size: d.Size, Room: s.Room, Bound: s.Bound}
}

// DetachDIMM asks the guest to give a DIMM back.
type DetachDIMM struct {
	Alias string        `json:"alias"`
	Cell  int           `json:"cell"`
	Size  uint64        `json:"size"`
	Room  Room          `json:"room"` // for plugging it again
	Bound time.Duration `json:"bound"`
}

// String implements fmt.Stringer.
func (s DetachDIMM) String() string {
	return fmt.Sprintf("ask the guest to give back %s, a DIMM of %s", s.Alias, show(s.Size))
}

// Within implements Step.
func (s DetachDIMM) Within() time.Duration { return s.Bound }

// ConfirmedBy implements Step.
func (DetachDIMM) ConfirmedBy() string { return "the domain's devices, among which it is no more" }

// UndoneBy implements Step.
func (DetachDIMM) UndoneBy() string {
	return "plugging one of that size; one that the guest has not given back yet may still leave"
}

func (DetachDIMM) kind() kind { return kindDetachDIMM }

func (s DetachDIMM) do(ctx context.Context, h hands, _ Is) error {
	return h.domain.DetachDIMM(ctx, s.Alias)
}

func (s DetachDIMM) done(is Is) error {
	if _, ok := is.device(s.Alias); ok {
		return fmt.Errorf("the guest has not given %s back", s.Alias)
	}
	return nil
}

func (s DetachDIMM) undo(is Is) Step {
	if _, ok := is.device(s.Alias); ok {
		return nil
	}
	return AttachDIMM{Cell: s.Cell, Size: s.Size, Known: aliases(is.Domain.Memory), Room: s.Room, Bound: s.Bound}
}
