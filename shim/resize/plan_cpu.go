package resize

import (
	"cmp"
	"math"

	"github.com/mooring-vm/mooring/shim/resize/target"
	"github.com/mooring-vm/mooring/shim/virt"
)

// cpu plans vCPUs, bandwidth and shares. A vCPU that the guest itself has taken offline is no
// reason to plug one.
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
}

func (b *builder) checkVCPUs(desired int, v virt.VCPUs) {
	if limit := b.policy.MaxVCPUs; limit > 0 && desired > max(limit, v.Plugged) {
		b.refuse(Forbidden, "vCPUs: %d are more than the node's policy allows, which is %d", desired, limit)
	}
	switch {
	case desired > v.Maximum && v.Maximum <= v.Boot:
		b.refuse(NotPrepared, "vCPUs: the domain has no more than the %d that it booted with: it was not prepared for more", v.Maximum)
	case desired > v.Maximum:
		b.refuse(AboveMaximum, "vCPUs: %d are more than the domain can have, which is %d", desired, v.Maximum)
	case desired < v.Boot:
		b.refuse(BelowBoot, "vCPUs: %d are less than the %d of the domain that cannot be unplugged", desired, v.Boot)
	}
}

// planBandwidth plans one step for period, quota and shares.
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
	if desired == nil || sameBandwidth(virt.Bandwidth{Period: desired.Period, Quota: desired.Quota}, current) {
		return
	}
	switch {
	case current.Supported:
		step.FromVCPUs = b.observed.Domain.VCPUs.Plugged
		step.FromPeriod, step.FromQuota, step.Period, step.Quota = current.Period, current.Quota, desired.Period, desired.Quota
	case desired.Quota == virt.Unlimited: // which they are: nothing but the container's limit holds them
	case desired.FromLimit:
		b.notes = append(b.notes, "CPU bandwidth: this libvirt cannot change it; the container's own CPU limit holds the VM")
	default:
		b.refuse(NoBandwidth, "CPU bandwidth: this libvirt cannot change it, and the container's CPU limit is not the one that is wanted: "+
			"want that to be %dm", b.totalMilliCPU(*desired))
	}
}

// allVCPUs is the bandwidth of all vCPUs together, in thousandths of a CPU, rounded up.
func (b *builder) totalMilliCPU(each target.Bandwidth) int64 {
	vcpus := cmp.Or(b.desired.VCPUs, b.observed.Domain.VCPUs.Plugged)
	return int64(math.Ceil(float64(1000*int64(vcpus)*each.Quota.Microseconds()) / float64(each.Period.Microseconds())))
}

// planShares takes no limit of the container for them: that says nothing about others.
func (b *builder) planShares(step *SetBandwidth) {
	desired, current := uint64(b.desired.CPUShares), b.observed.Domain.Bandwidth
	switch {
	case desired == 0 || desired == current.Shares:
	case current.Supported && current.Shares > 0:
		step.FromShares, step.Shares = current.Shares, desired
	default:
		b.refuse(NoShares, "CPU shares: this libvirt cannot change them; a CPU request of the container weighs it with the VM in it, and its CPU limit does not")
	}
}
