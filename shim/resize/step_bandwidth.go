package resize

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/mooring-vm/mooring/shim/virt"
)

// SetBandwidth sets the CPU bandwidth of each vCPU and the CPU shares of the VM in one call. A
// quota or shares of 0 keep their values. The domain's scheduler parameters confirm it. A rollback
// restores the old values.
type SetBandwidth struct {
	FromVCPUs  int           `json:"fromVCPUs,omitempty"` // plugged before the step
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
	var changes []string
	if s.Quota != 0 {
		changes = append(changes, fmt.Sprintf("the CPU bandwidth of each vCPU from %s to %s",
			formatBandwidth(s.FromPeriod, s.FromQuota), formatBandwidth(s.Period, s.Quota)))
	}
	if s.Shares != 0 {
		changes = append(
			changes, fmt.Sprintf("the CPU shares from %d to %d", s.FromShares, s.Shares),
		)
	}
	return "change " + strings.Join(changes, " and ")
}

func formatBandwidth(period, quota time.Duration) string {
	if quota == virt.Unlimited {
		return "unlimited"
	}
	return fmt.Sprintf("%s per %s", quota, period)
}

// Timeout implements Step.
func (s SetBandwidth) Timeout() time.Duration { return s.Within }

func (SetBandwidth) kind() kind { return kindSetBandwidth }

func (s SetBandwidth) execute(ctx context.Context, h handles, _ Observed) error {
	return h.domain.SetBandwidth(ctx, s.desired())
}

func (s SetBandwidth) desired() virt.Bandwidth {
	return virt.Bandwidth{Period: s.Period, Quota: s.Quota, Shares: s.Shares}
}

func (s SetBandwidth) verify(o Observed) error {
	var missing []error
	b := o.Domain.Bandwidth
	if s.Quota != 0 && !sameBandwidth(s.desired(), b) {
		missing = append(missing, fmt.Errorf("the CPU bandwidth of each vCPU is %s: want %s",
			formatBandwidth(b.Period, b.Quota), formatBandwidth(s.Period, s.Quota)))
	}
	if s.Shares != 0 && b.Shares != s.Shares {
		missing = append(
			missing, fmt.Errorf("the VM has %d CPU shares: want %d", b.Shares, s.Shares),
		)
	}
	return errors.Join(missing...)
}

// rollback restores only the values that the step has set. If extra vCPUs could not be unplugged,
// it does not restore the larger bandwidth: all vCPUs together could exceed the limit.
func (s SetBandwidth) rollback(o Observed) Step {
	b, back := o.Domain.Bandwidth, SetBandwidth{Within: s.Within}
	previous := s.previous()
	if s.Quota != 0 && !sameBandwidth(previous, b) && s.notRolledBack(o) == nil {
		back.FromPeriod, back.FromQuota = b.Period, b.Quota
		back.Period, back.Quota = previous.Period, previous.Quota
	}
	if s.Shares != 0 && s.FromShares != b.Shares {
		back.FromShares, back.Shares = b.Shares, s.FromShares
	}
	if back.Quota == 0 && back.Shares == 0 {
		return nil
	}
	return back
}

func (s SetBandwidth) previous() virt.Bandwidth {
	return virt.Bandwidth{Period: s.FromPeriod, Quota: s.FromQuota}
}

// notRolledBack implements incompleteRollback.
func (s SetBandwidth) notRolledBack(o Observed) error {
	previous, b, vcpus := s.previous(), o.Domain.Bandwidth, o.Domain.VCPUs.Plugged
	extraVCPUs := s.FromVCPUs != 0 && vcpus > s.FromVCPUs
	if s.Quota == 0 || !extraVCPUs || !hasMoreTime(previous, b) {
		return nil
	}
	return fmt.Errorf("the CPU bandwidth of each vCPU stays %s: %d vCPUs are plugged, "+
		"and %d vCPUs had %s", formatBandwidth(b.Period, b.Quota), vcpus,
		s.FromVCPUs, formatBandwidth(previous.Period, previous.Quota))
}

// hasMoreTime reports whether a vCPU may run longer with a than with b.
func hasMoreTime(a, b virt.Bandwidth) bool {
	if a.Quota == virt.Unlimited || b.Quota == virt.Unlimited {
		return b.Quota != virt.Unlimited
	}
	return float64(a.Quota)/float64(a.Period) > float64(b.Quota)/float64(b.Period)
}

// sameBandwidth reports whether a and b allow the same run time. The period has no effect without
// a quota.
func sameBandwidth(a, b virt.Bandwidth) bool {
	if a.Quota == virt.Unlimited || b.Quota == virt.Unlimited {
		return a.Quota == b.Quota
	}
	return a.Period == b.Period && a.Quota == b.Quota
}
