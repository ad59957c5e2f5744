package resize

import (
	"github.com/mooring-vm/mooring/shim/virt"
)

// planMemory plans the guest's memory. The balloon deflates before devices are plugged. A guest
// with an inflated balloon shrinks by the balloon. So the guest never has less than the smaller of
// its old and its new memory.
func (b *builder) planMemory() {
	desired, m := b.desired.GuestMemory(), b.observed.Domain.Memory
	if desired == 0 {
		return
	}
	plugged, guest := pluggedMemory(m, currentSize), b.observed.GuestMemory()
	if limit := b.policy.MaxMemory; limit > 0 && desired > max(limit, guest) {
		b.refuse(
			Forbidden, "memory: %s exceeds the maximum of the node's policy, %s%s",
			formatBytes(desired), formatBytes(limit), b.policy.by(),
		)
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
	b.checkShrink(b.shrink)
	if room := b.observed.Limits.Available; desired > guest && desired-guest > room {
		b.refuse(NoNodeMemory, "the guest would get %s more, and the node has only %s available",
			formatBytes(desired-guest), formatBytes(room))
	}
}

// planGrow plans to plug the memory that is missing beyond the plugged memory.
func (b *builder) planGrow(plugged, desired uint64) {
	switch m := b.observed.Domain.Memory; {
	case hasVirtioMem(m):
		b.planGrowVirtioMem(plugged, desired)
	case takesVirtioMem(m):
		b.planAttachVirtioMem(plugged, desired)
	default:
		b.planGrowDIMM(plugged, desired)
	}
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
		b.refuse(
			AboveMaximum, "memory: %s exceeds the capacity of the guest's virtio-mem devices, %s",
			formatBytes(desired), formatBytes(desired-missing+spare),
		)
	case missing > 0:
		b.refuseAlignment(desired, desired-missing, desired-missing+block, block)
	}
}

// planRequest plans a size for a virtio-mem device. There is no step if the device has this size
// and no other request is open.
func (b *builder) planRequest(d virt.MemoryDevice, bytes uint64) {
	if d.Requested == bytes && d.Current == bytes {
		return
	}
	if bytes == d.Current {
		b.settle = append(b.settle, SettleMemory{Alias: d.Alias, Within: b.policy.Timeouts.Shrink})
		return
	}
	step := RequestMemory{
		Alias:  d.Alias,
		From:   d.Current,
		To:     bytes,
		Within: b.policy.Timeouts.Grow,
	}
	if bytes > d.Current {
		step.SizeLimit = b.limitForDesired()
		b.grow = append(b.grow, step)
		return
	}
	step.Within, step.SizeLimit = b.policy.Timeouts.Shrink, b.limitForObserved()
	b.shrink = append(b.shrink, step)
}

// planSettle withdraws unfinished requests to virtio-mem devices.
func (b *builder) planSettle() {
	for _, d := range b.observed.Domain.Memory.Devices {
		if d.Model == virt.VirtioMem {
			b.planRequest(d, d.Current)
		}
	}
}

// refuseAlignment refuses a size that the devices cannot reach, and names the nearest sizes. unit
// is the granularity of the devices.
func (b *builder) refuseAlignment(desired, below, above, unit uint64) {
	b.refuse(Alignment, "memory: %s is not possible in steps of %s: want %s or %s",
		formatBytes(desired), formatBytes(unit), formatBytes(below), formatBytes(above))
}

// roundDown returns the largest multiple of block that is at most n.
func roundDown(n, block uint64) uint64 {
	if block == 0 {
		return n
	}
	return n - n%block
}
