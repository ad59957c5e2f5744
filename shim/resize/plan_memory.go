package resize

import (
	"github.com/mooring-vm/mooring/shim/virt"
)

// memory plans the guest's memory. The balloon is let out before devices are plugged,
// and a guest with an inflated balloon shrinks by it: so the guest never has less than
// the smaller of what it had and what it is to have.
func (b *builder) planMemory() {
	desired, m := b.desired.GuestMemory(), b.observed.Domain.Memory
	if desired == 0 {
		return
	}
	plugged, guest := pluggedMemory(m, currentSize), b.observed.GuestMemory()
	if limit := b.policy.MaxMemory; limit > 0 && desired > max(limit, guest) {
		b.refuse(Forbidden, "memory: %s is more than the node's policy allows, which is %s", formatBytes(desired), formatBytes(limit))
	}
	switch {
	case guest < plugged && desired != guest:
		b.planBalloon(guest, min(desired, plugged))
		if desired > plugged {
			b.planGrow(plugged, desired)
		}
	case desired > plugged:
		b.planGrow(plugged, desired)
	case desired < plugged && guest == plugged:
		b.planShrink(plugged, desired)
	default:
		b.planSettle()
	}
	if desired > guest {
		b.addedMemory = desired - guest
	}
}

// grow plans to plug what the guest is to have beyond all that is plugged.
func (b *builder) planGrow(plugged, desired uint64) {
	m := b.observed.Domain.Memory
	if hasVirtioMem(m) {
		b.planGrowVirtioMem(plugged, desired)
		return
	}
	b.planGrowDIMM(plugged, desired)
}

func hasVirtioMem(m virt.Memory) bool {
	for _, d := range m.Devices {
		if d.Model == virt.VirtioMem {
			return true
		}
	}
	return false
}

func (b *builder) planGrowVirtioMem(plugged, desired uint64) {
	var missing, spare, block uint64 = desired - plugged, 0, 1
	for _, d := range b.observed.Domain.Memory.Devices {
		if d.Model != virt.VirtioMem {
			continue
		}
		free := d.Size - min(d.Current, d.Size)
		take := roundDown(min(missing, free), d.Block)
		b.planRequest(d, d.Current+take)
		missing -= take
		spare += free - take
		block = max(block, d.Block)
	}
	switch {
	case missing > spare:
		b.refuse(AboveMaximum, "memory: %s is more than the guest's virtio-mem devices have room for, which is %s",
			formatBytes(desired), formatBytes(desired-missing+spare))
	case missing > 0:
		b.refuseAlignment(desired, desired-missing, desired-missing+block, formatBytes(block)+" that its virtio-mem takes memory in")
	}
}

// request plans that a guest has so much of a virtio-mem device, unless it has and was
// asked to.
func (b *builder) planRequest(d virt.MemoryDevice, bytes uint64) {
	if d.Requested == bytes && d.Current == bytes {
		return
	}
	if bytes == d.Current {
		b.settle = append(b.settle, SettleMemory{Alias: d.Alias, Within: b.policy.Timeouts.Shrink})
		return
	}
	step := RequestMemory{Alias: d.Alias, From: d.Current, To: bytes, Within: b.policy.Timeouts.Grow}
	if bytes > d.Current {
		step.SizeLimit = b.limitForDesired()
		b.grow = append(b.grow, step)
		return
	}
	step.Within, step.SizeLimit = b.policy.Timeouts.Shrink, b.limitForObserved()
	b.shrink = append(b.shrink, step)
}

// settle withdraws what a guest was asked for and has not done.
func (b *builder) planSettle() {
	for _, d := range b.observed.Domain.Memory.Devices {
		if d.Model == virt.VirtioMem {
			b.planRequest(d, d.Current)
		}
	}
}

func (b *builder) refuseAlignment(desired, below, above uint64, unit string) {
	b.refuse(Alignment, "memory: %s is no multiple of the %s above what it has: want %s or %s",
		formatBytes(desired), unit, formatBytes(below), formatBytes(above))
}

// down is the largest multiple of block that is not above n.
func roundDown(n, block uint64) uint64 {
	if block == 0 {
		return n
	}
	return n - n%block
}
