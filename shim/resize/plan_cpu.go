package resize

import (
	"cmp"
	"math"

	"github.com/mooring-vm/mooring/shim/resize/target"
	"github.com/mooring-vm/mooring/shim/virt"
)

// planCPU plans vCPUs, bandwidth and shares. A vCPU that the guest has taken offline needs no
// replacement.
func (b *builder) planCPU() {
	b.planBandwidth()
	desired, v := b.desired.VCPUs, b.observed.Domain.VCPUs
	if desired == 0 || desired == v.Plugged {
		return
	}
	b.checkVCPUs(desired, v)
	step := SetVCPUs{From: v.Plugged, To: desired, Used: v.Online, Within: b.policy.Timeouts.VCPUs}
	if desired > v.Plugged {
		step.SizeLimit = b.limitForDesired()
		b.plug = Steps{step}
		return
	}
	step.SizeLimit = b.limitForObserved()
	b.unplug = Steps{step}
	b.checkShrink(b.unplug)
}

func (b *builder) checkVCPUs(desired int, v virt.VCPUs) {
	if limit := b.policy.MaxVCPUs; limit > 0 && desired > max(limit, v.Plugged) {
		b.refuse(Forbidden, "vCPUs: %d exceed the maximum of the node's policy, %d%s", desired,
			limit, b.policy.by())
	}
	switch {
	case desired > v.Maximum && v.Maximum <= v.Boot:
		b.refuse(
			NotPrepared,
			"vCPUs: the domain has no headroom: its maximum is the %d vCPUs it booted with",
			v.Maximum,
		)
	case desired > v.Maximum:
		b.refuse(AboveMaximum, "vCPUs: %d exceed the domain's maximum, %d", desired, v.Maximum)
	case desired < v.Boot:
		b.refuse(BelowBoot, "vCPUs: %d are below the %d that cannot be unplugged", desired, v.Boot)
	}
}

// planBandwidth plans one step for quota, period and shares.
func (b *builder) planBandwidth() {
	step := SetBandwidth{Within: b.policy.Timeouts.Bandwidth}
	b.planQuota(&step)
	b.planShares(&step)
	if step.desired() != (virt.Bandwidth{}) {
		b.bandwidth = Steps{step}
	}
}

func (b *builder) planQuota(step *SetBandwidth) {
	desired, current := b.desired.Bandwidth, b.observed.Domain.Bandwidth
	if desired == nil ||
		sameBandwidth(virt.Bandwidth{Period: desired.Period, Quota: desired.Quota}, current) {
		return
	}
	switch {
	case current.Supported:
		step.FromVCPUs = b.observed.Domain.VCPUs.Plugged
		step.FromPeriod, step.FromQuota = current.Period, current.Quota
		step.Period, step.Quota = desired.Period, desired.Quota
	case desired.Quota == virt.Unlimited: // already true: only the container's limit applies
	case desired.FromLimit:
		b.notes = append(
			b.notes,
			"CPU bandwidth: this libvirt cannot change it; the container's CPU limit applies",
		)
	default:
		b.refuse(
			NoBandwidth,
			"CPU bandwidth: this libvirt cannot change it: set the container's CPU limit to %dm "+
				"instead",
			b.totalMilliCPU(*desired),
		)
	}
}

// totalMilliCPU returns the bandwidth of all vCPUs together in thousandths of a CPU, rounded up.
func (b *builder) totalMilliCPU(each target.Bandwidth) int64 {
	vcpus := cmp.Or(b.desired.VCPUs, b.observed.Domain.VCPUs.Plugged)
	return int64(
		math.Ceil(
			float64(
				1000*int64(vcpus)*each.Quota.Microseconds(),
			) / float64(
				each.Period.Microseconds(),
			),
		),
	)
}

// planShares ignores the container's CPU limit, which does not affect the weight.
func (b *builder) planShares(step *SetBandwidth) {
	desired, current := uint64(b.desired.CPUShares), b.observed.Domain.Bandwidth
	switch {
	case desired == 0 || desired == current.Shares:
	case current.Supported && current.Shares > 0:
		step.FromShares, step.Shares = current.Shares, desired
	default:
		b.refuse(
			NoShares,
			"CPU shares: this libvirt cannot change them: set the container's CPU request "+
				"instead; its CPU limit has no effect on the weight",
		)
	}
}
