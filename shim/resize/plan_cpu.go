package resize

import (
	"github.com/mooring-vm/mooring/shim/virt"
)

// cpu plans vCPUs and bandwidth. A vCPU that the guest itself has taken offline is no
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

func (b *builder) planBandwidth() {
	want, is := b.want.Bandwidth, b.is.Domain.Bandwidth
	if want == nil || same(virt.Bandwidth{Period: want.Period, Quota: want.Quota}, is) {
		return
	}
	switch {
	case is.Supported:
		step := SetBandwidth{
			FromPeriod: is.Period, FromQuota: is.Quota, Period: want.Period, Quota: want.Quota, Bound: b.policy.Bounds.CPU,
		}
		b.bandwidth = Steps{step}
	case want.FromLimit:
		b.notes = append(b.notes, "CPU bandwidth: this libvirt cannot change it; the container's own CPU limit holds the VM")
	default:
		b.refuse(NoBandwidth, "CPU bandwidth: this libvirt cannot change it, and the container's CPU limit is not the one that is wanted")
	}
}

// same tells whether vCPUs may run as much. Without a quota the period says nothing.
func same(a, b virt.Bandwidth) bool {
	if a.Quota == virt.Unlimited || b.Quota == virt.Unlimited {
		return a.Quota == b.Quota
	}
	return a.Period == b.Period && a.Quota == b.Quota
}
