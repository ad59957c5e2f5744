package resize

import (
	"context"
	"fmt"
	"time"

	"github.com/mooring-vm/mooring/shim/virt"
)

// SetVCPUs plugs or unplugs vCPUs.
type SetVCPUs struct {
	From  int           `json:"from"`
	To    int           `json:"to"`
	Used  int           `json:"used"` // how many the guest used when it was planned, or virt.Unknown
	Room  Room          `json:"room"` // for those to be plugged, or plugged again
	Bound time.Duration `json:"bound"`
}

// String implements fmt.Stringer.
func (s SetVCPUs) String() string {
	return fmt.Sprintf("give the guest %d vCPUs instead of %d", s.To, s.From)
}

// Within implements Step.
func (s SetVCPUs) Within() time.Duration { return s.Bound }

// ConfirmedBy implements Step.
func (SetVCPUs) ConfirmedBy() string {
	return "the guest, which uses all that are new, or no more than are left; where it has never told, the hypervisor, which has so many"
}

// UndoneBy implements Step.
func (s SetVCPUs) UndoneBy() string {
	if s.To < s.From {
		return "plugging them again"
	}
	return "unplugging them, which the guest or QEMU may refuse"
}

func (SetVCPUs) kind() kind { return kindSetVCPUs }

func (s SetVCPUs) check(is Is) error {
	if n := is.Domain.VCPUs.Plugged; n != s.From {
		return fmt.Errorf("the domain has %d vCPUs, and had %d when it was planned", n, s.From)
	}
	return nil
}

func (s SetVCPUs) room(is Is) error {
	if s.To > s.From {
		return s.Room.check(is, is.Possible(), s.To)
	}
	return nil
}

func (s SetVCPUs) do(ctx context.Context, h hands, _ Is) error { return h.domain.SetVCPUs(ctx, s.To) }

func (s SetVCPUs) done(is Is) error {
	v := is.Domain.VCPUs
	switch {
	case v.Plugged != s.To:
		return fmt.Errorf("the domain has %d vCPUs: want %d", v.Plugged, s.To)
	case v.Online == virt.Unknown && s.To > s.From && s.Used != virt.Unknown:
		return fmt.Errorf("the guest has %d vCPUs, and does not tell any more how many it uses", v.Plugged)
	case v.Online != virt.Unknown && (v.Online < s.least() || v.Online > s.To):
		return fmt.Errorf("the guest uses %d of its %d vCPUs", v.Online, v.Plugged)
	}
	return nil
}

// least is how many vCPUs the guest uses at least when it has taken the new ones: those
// that it had taken offline itself stay so. A guest that did not tell used one at least.
func (s SetVCPUs) least() int {
	if s.To < s.From {
		return 1
	}
	return min(s.To, max(s.Used, 1)+s.To-s.From)
}

func (s SetVCPUs) undo(is Is) Step {
	now := is.Domain.VCPUs
	if now.Plugged == s.From {
		return nil
	}
	return SetVCPUs{From: now.Plugged, To: s.From, Used: now.Online, Room: s.Room, Bound: s.Bound}
}
