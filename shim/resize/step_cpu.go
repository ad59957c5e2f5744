package resize

import (
	"context"
	"fmt"
	"time"

	"github.com/mooring-vm/mooring/shim/virt"
)

// SetVCPUs plugs or unplugs vCPUs.
type SetVCPUs struct {
	From      int           `json:"from"`
	To        int           `json:"to"`
	Used      int           `json:"used"` // how many the guest used when it was planned, or virt.Unknown
	SizeLimit SizeLimit     `json:"room"` // for those to be plugged, or plugged again
	Within    time.Duration `json:"bound"`
}

// String implements fmt.Stringer.
func (s SetVCPUs) String() string {
	return fmt.Sprintf("give the guest %d vCPUs instead of %d", s.To, s.From)
}

// Within implements Step.
func (s SetVCPUs) Timeout() time.Duration { return s.Within }

// ConfirmedBy implements Step.
func (SetVCPUs) ConfirmedBy() string {
	return "the guest, which uses all that are new, or no more than are left; where it has never told, the hypervisor, which has so many"
}

// UndoneBy implements Step.
func (s SetVCPUs) RollbackMethod() string {
	if s.To < s.From {
		return "plugging them again"
	}
	return "unplugging them, which the guest or QEMU may refuse"
}

func (SetVCPUs) kind() kind { return kindSetVCPUs }

func (s SetVCPUs) checkStart(o Observed) error {
	if n := o.Domain.VCPUs.Plugged; n != s.From {
		return fmt.Errorf("the domain has %d vCPUs, and had %d when it was planned", n, s.From)
	}
	return nil
}

func (s SetVCPUs) checkLimits(o Observed) error {
	if s.To > s.From {
		return s.SizeLimit.allows(o, o.PossibleMemory(), s.To)
	}
	return nil
}

func (s SetVCPUs) execute(ctx context.Context, h handles, _ Observed) error {
	return h.domain.SetVCPUs(ctx, s.To)
}

func (s SetVCPUs) verify(o Observed) error {
	v := o.Domain.VCPUs
	switch {
	case v.Plugged != s.To:
		return fmt.Errorf("the domain has %d vCPUs: want %d", v.Plugged, s.To)
	case v.Online == virt.Unknown && s.To > s.From && s.Used != virt.Unknown:
		return fmt.Errorf("the guest has %d vCPUs, and does not tell any more how many it uses", v.Plugged)
	case v.Online != virt.Unknown && (v.Online < s.minOnline() || v.Online > s.To):
		return fmt.Errorf("the guest uses %d of its %d vCPUs", v.Online, v.Plugged)
	}
	return nil
}

// least is how many vCPUs the guest uses at least when it has taken the new ones: those
// that it had taken offline itself stay so. A guest that did not tell used one at least.
func (s SetVCPUs) minOnline() int {
	if s.To < s.From {
		return 1
	}
	return min(s.To, max(s.Used, 1)+s.To-s.From)
}

func (s SetVCPUs) rollback(o Observed) Step {
	now := o.Domain.VCPUs
	if now.Plugged == s.From {
		return nil
	}
	return SetVCPUs{From: now.Plugged, To: s.From, Used: now.Online, SizeLimit: s.SizeLimit, Within: s.Within}
}
