package resize

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/mooring-vm/mooring/shim/virt"
)

// SetBandwidth changes how long each vCPU may run in each period, and the VM's weight
// against others, in one order. A quota or shares of 0 are left as they are.
type SetBandwidth struct {
	FromVCPUs  int           `json:"fromVCPUs,omitempty"` // plugged before
	FromPeriod time.Duration `json:"fromPeriod"`
	FromQuota  time.Duration `json:"fromQuota"`
	Period     time.Duration `json:"period"`
	Quota      time.Duration `json:"quota"`
	FromShares uint64        `json:"fromShares,omitempty"`
	Shares     uint64        `json:"shares,omitempty"`
	Within     time.Duration `json:"bound"`
}

// String implements fmt.Stringer.
func (s SetBandwidth) String() string {
	var all []string
	if s.Quota != 0 {
		all = append(all, fmt.Sprintf("let each vCPU run %s instead of %s", formatBandwidth(s.Period, s.Quota), formatBandwidth(s.FromPeriod, s.FromQuota)))
	}
	if s.Shares != 0 {
		all = append(all, fmt.Sprintf("give the VM %d CPU shares instead of %d", s.Shares, s.FromShares))
	}
	return strings.Join(all, ", and ")
}

func formatBandwidth(period, quota time.Duration) string {
	if quota == virt.Unlimited {
		return "without a limit"
	}
	return fmt.Sprintf("%s in %s", quota, period)
}

// Within implements Step.
func (s SetBandwidth) Timeout() time.Duration { return s.Within }

// ConfirmedBy implements Step.
func (SetBandwidth) ConfirmedBy() string { return "the domain's scheduler parameters" }

// UndoneBy implements Step.
func (SetBandwidth) RollbackMethod() string { return "setting what there was" }

func (SetBandwidth) kind() kind { return kindSetBandwidth }

func (s SetBandwidth) execute(ctx context.Context, h handles, _ Observed) error {
	return h.domain.SetBandwidth(ctx, s.desired())
}

func (s SetBandwidth) desired() virt.Bandwidth {
	return virt.Bandwidth{Period: s.Period, Quota: s.Quota, Shares: s.Shares}
}

func (s SetBandwidth) verify(o Observed) error {
	var missing []error
	now := o.Domain.Bandwidth
	if s.Quota != 0 && !sameBandwidth(s.desired(), now) {
		missing = append(missing, fmt.Errorf("each vCPU may run %s: want %s", formatBandwidth(now.Period, now.Quota), formatBandwidth(s.Period, s.Quota)))
	}
	if s.Shares != 0 && now.Shares != s.Shares {
		missing = append(missing, fmt.Errorf("the VM has %d CPU shares: want %d", now.Shares, s.Shares))
	}
	return errors.Join(missing...)
}

// undo takes back what the step has set, and nothing else. vCPUs that stay, and were not
// there before, do not get what each had then: together that may be more than is allowed.
func (s SetBandwidth) rollback(o Observed) Step {
	now, back := o.Domain.Bandwidth, SetBandwidth{Within: s.Within}
	if had := s.previous(); s.Quota != 0 && !sameBandwidth(had, now) && s.notRolledBack(o) == nil {
		back.FromPeriod, back.FromQuota, back.Period, back.Quota = now.Period, now.Quota, had.Period, had.Quota
	}
	if s.Shares != 0 && s.FromShares != now.Shares {
		back.FromShares, back.Shares = now.Shares, s.FromShares
	}
	if back.Quota == 0 && back.Shares == 0 {
		return nil
	}
	return back
}

func (s SetBandwidth) previous() virt.Bandwidth {
	return virt.Bandwidth{Period: s.FromPeriod, Quota: s.FromQuota}
}

// leaves implements leaver.
func (s SetBandwidth) notRolledBack(o Observed) error {
	had, now, vcpus := s.previous(), o.Domain.Bandwidth, o.Domain.VCPUs.Plugged
	if s.Quota == 0 || s.FromVCPUs == 0 || vcpus <= s.FromVCPUs || !hasMoreTime(had, now) {
		return nil
	}
	return fmt.Errorf("each vCPU may still run %s: there are %d, and the %d before might run %s",
		formatBandwidth(now.Period, now.Quota), vcpus, s.FromVCPUs, formatBandwidth(had.Period, had.Quota))
}

// longer tells whether vCPUs may run for longer with a than with b.
func hasMoreTime(a, b virt.Bandwidth) bool {
	if a.Quota == virt.Unlimited || b.Quota == virt.Unlimited {
		return b.Quota != virt.Unlimited
	}
	return float64(a.Quota)/float64(a.Period) > float64(b.Quota)/float64(b.Period)
}

// same tells whether vCPUs may run as much. Without a quota the period says nothing.
func sameBandwidth(a, b virt.Bandwidth) bool {
	if a.Quota == virt.Unlimited || b.Quota == virt.Unlimited {
		return a.Quota == b.Quota
	}
	return a.Period == b.Period && a.Quota == b.Quota
}
