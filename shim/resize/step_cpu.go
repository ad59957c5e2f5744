package resize

import (
	"context"
	"fmt"
	"time"

	"github.com/mooring-vm/mooring/shim/virt"
)

// SetVCPUs plugs or unplugs vCPUs. The guest confirms it: it uses all new vCPUs, or no more than
// the remaining ones. If the guest never reported its vCPUs, the hypervisor's number confirms it.
// A rollback plugs or unplugs them again. The guest or QEMU may refuse an unplug.
type SetVCPUs struct {
	From      int           `json:"from"`
	To        int           `json:"to"`
	Used      int           `json:"used"` // by the guest when the step was planned, or virt.Unknown
	SizeLimit SizeLimit     `json:"room"` // applies to plugging, also in a rollback
	Within    time.Duration `json:"bound"`
}

// String implements fmt.Stringer.
func (s SetVCPUs) String() string {
	return fmt.Sprintf("change the number of vCPUs from %d to %d", s.From, s.To)
}

// Timeout implements Step.
func (s SetVCPUs) Timeout() time.Duration { return s.Within }

func (SetVCPUs) kind() kind { return kindSetVCPUs }

func (s SetVCPUs) checkStart(o Observed) error {
	if n := o.Domain.VCPUs.Plugged; n != s.From {
		return fmt.Errorf("the domain has %d vCPUs, the plan expected %d", n, s.From)
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
		return fmt.Errorf(
			"the guest has %d vCPUs and no longer reports how many it uses", v.Plugged,
		)
	case v.Online != virt.Unknown && (v.Online < s.minOnline() || v.Online > s.To):
		return fmt.Errorf("the guest uses %d of its %d vCPUs", v.Online, v.Plugged)
	}
	return nil
}

// minOnline returns the smallest number of online vCPUs that confirms the step. vCPUs that the
// guest has taken offline itself may stay offline. A guest without a report used at least one.
func (s SetVCPUs) minOnline() int {
	if s.To < s.From {
		return 1
	}
	return min(s.To, max(s.Used, 1)+s.To-s.From)
}

func (s SetVCPUs) remaining(o Observed) uint64 {
	v := o.Domain.VCPUs
	return distance(v.Plugged, s.To) + distance(max(v.Online, 0), s.To)
}

func (s SetVCPUs) rollback(o Observed) Step {
	v := o.Domain.VCPUs
	if v.Plugged == s.From {
		return nil
	}
	return SetVCPUs{
		From: v.Plugged, To: s.From, Used: v.Online, SizeLimit: s.SizeLimit, Within: s.Within,
	}
}
