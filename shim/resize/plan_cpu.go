package resize

import (
	"cmp"
	"math"

	"github.com/mooring-vm/mooring/shim/resize/target"
	"github.com/mooring-vm/mooring/shim/virt"
)

// cpu plans vCPUs, bandwidth and shares. A vCPU that the guest itself has taken offline is no
// reason to plug one.
func (b *builder) cpu() {
	b.planBandwidth()
	want, v := b.want.VCPUs, b.is.Domain.VCPUs
	if want == 0 || want == v.Plugged {
		return
	}
	b.checkVCPUs(want, v)
	step := SetVCPUs{From: v.Plugged, To: want, Used: v.Online, Bound: b.policy.Bounds.VCPUs}
	if want > v.Plugged {
		step.Room = b.then()
		b.plug = Steps{step}
		return
	}
	step.Room = b.before()
	b.unplug = Steps{step}
}

func (b *builder) checkVCPUs(want int, v virt.VCPUs) {
	if limit := b.policy.MaxVCPUs; limit > 0 && want > max(limit, v.Plugged) {
		b.refuse(Forbidden, "vCPUs: %d are more than the node's policy allows, which is %d", want, limit)
	}
	switch {
	case want > v.Maximum && v.Maximum <= v.Boot:
		b.refuse(NotPrepared, "vCPUs: the domain has no more than the %d that it booted with: it was not prepared for more", v.Maximum)
	case want > v.Maximum:
		b.refuse(AboveMaximum, "vCPUs: %d are more than the domain can have, which is %d", want, v.Maximum)
	case want < v.Boot:
		b.refuse(BelowBoot, "vCPUs: %d are less than the %d of the domain that cannot be unplugged", want, v.Boot)
	}
}

// planBandwidth plans one step for period, quota and shares.
func (b *builder) planBandwidth() {
	step := SetBandwidth{Bound: b.policy.Bounds.CPU}
	b.planQuota(&step)
	b.planShares(&step)
	if step.wants() != (virt.Bandwidth{}) {
		b.bandwidth = Steps{step}
	}
}

func (b *builder) planQuota(step *SetBandwidth) {
	want, is := b.want.Bandwidth, b.is.Domain.Bandwidth
	if want == nil || same(virt.Bandwidth{Period: want.Period, Quota: want.Quota}, is) {
		return
	}
	switch {
	case is.Supported:
		step.FromVCPUs = b.is.Domain.VCPUs.Plugged
		step.FromPeriod, step.FromQuota, step.Period, step.Quota = is.Period, is.Quota, want.Period, want.Quota
	case want.Quota == virt.Unlimited: // which they are: nothing but the container's limit holds them
	case want.FromLimit:
		b.notes = append(b.notes, "CPU bandwidth: this libvirt cannot change it; the container's own CPU limit holds the VM")
	default:
		b.refuse(NoBandwidth, "CPU bandwidth: this libvirt cannot change it, and the container's CPU limit is not the one that is wanted: "+
			"want that to be %dm", b.allVCPUs(*want))
	}
}

// allVCPUs is the bandwidth of all vCPUs together, in thousandths of a CPU, rounded up.
func (b *builder) allVCPUs(each target.Bandwidth) int64 {
	vcpus := cmp.Or(b.want.VCPUs, b.is.Domain.VCPUs.Plugged)
	return int64(math.Ceil(float64(1000*int64(vcpus)*each.Quota.Microseconds()) / float64(each.Period.Microseconds())))
}

// planShares takes no limit of the container for them: that says nothing about others.
func (b *builder) planShares(step *SetBandwidth) {
	want, is := uint64(b.want.CPUShares), b.is.Domain.Bandwidth
	switch {
	case want == 0 || want == is.Shares:
	case is.Supported && is.Shares > 0:
		step.FromShares, step.Shares = is.Shares, want
	default:
		b.refuse(NoShares, "CPU shares: this libvirt cannot change them; a CPU request of the container weighs it with the VM in it, and its CPU limit does not")
	}
}
