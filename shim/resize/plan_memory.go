package resize

import (
	"github.com/mooring-vm/mooring/shim/virt"
)

// memory plans the guest's memory. The balloon is let out before devices are plugged,
// and a guest with an inflated balloon shrinks by it: so the guest never has less than
// the smaller of what it had and what it is to have.
func (b *builder) memory() {
	want, m := b.want.GuestMemory(), b.is.Domain.Memory
	if want == 0 {
		return
	}
	all, now := plugged(m, current), b.is.Guest()
	if limit := b.policy.MaxMemory; limit > 0 && want > max(limit, now) {
		b.refuse(Forbidden, "memory: %s is more than the node's policy allows, which is %s", show(want), show(limit))
	}
	switch {
	case now < all && want != now:
		b.balloon(now, min(want, all))
		if want > all {
			b.grow(all, want)
		}
	case want > all:
		b.grow(all, want)
	case want < all && now == all:
		b.shrink(all, want)
	default:
		b.settle()
	}
	if want > now {
		b.takes = want - now
	}
}

// grow plans to plug what the guest is to have beyond all that is plugged.
func (b *builder) grow(all, want uint64) {
	m := b.is.Domain.Memory
	if hasVirtioMem(m) {
		b.growVirtioMem(all, want)
		return
	}
	b.growDIMM(all, want)
}

func hasVirtioMem(m virt.Memory) bool {
	for _, d := range m.Devices {
		if d.Model == virt.VirtioMem {
			return true
		}
	}
	return false
}

func (b *builder) growVirtioMem(all, want uint64) {
	var left, unused, block uint64 = want - all, 0, 1
	for _, d := range b.is.Domain.Memory.Devices {
		if d.Model != virt.VirtioMem {
			continue
		}
		free := d.Size - min(d.Current, d.Size)
		take := down(min(left, free), d.Block)
		b.request(d, d.Current+take)
		left -= take
		unused += free - take
		block = max(block, d.Block)
	}
	switch {
	case left > unused:
		b.refuse(AboveMaximum, "memory: %s is more than the guest's virtio-mem devices have room for, which is %s",
			show(want), show(want-left+unused))
	case left > 0:
		b.misaligned(want, want-left, want-left+block, show(block)+" that its virtio-mem takes memory in")
	}
}

// request plans that a guest has so much of a virtio-mem device, unless it has and was
// asked to.
func (b *builder) request(d virt.MemoryDevice, bytes uint64) {
	if d.Requested == bytes && d.Current == bytes {
		return
	}
	if bytes == d.Current {
		b.settled = append(b.settled, SettleMemory{Alias: d.Alias, Bound: b.policy.Bounds.Shrink})
		return
	}
	step := RequestMemory{Alias: d.Alias, From: d.Current, To: bytes, Bound: b.policy.Bounds.Grow}
	if bytes > d.Current {
		step.Room = b.then()
		b.take = append(b.take, step)
		return
	}
	step.Bound, step.Room = b.policy.Bounds.Shrink, b.before()
	b.give = append(b.give, step)
}

// settle withdraws what a guest was asked for and has not done.
func (b *builder) settle() {
	for _, d := range b.is.Domain.Memory.Devices {
		if d.Model == virt.VirtioMem {
			b.request(d, d.Current)
		}
	}
}

func (b *builder) misaligned(want, below, above uint64, unit string) {
	b.refuse(Alignment, "memory: %s is no multiple of the %s above what it has: want %s or %s",
		show(want), unit, show(below), show(above))
}

// down is the largest multiple of block that is not above n.
func down(n, block uint64) uint64 {
	if block == 0 {
		return n
	}
	return n - n%block
}
