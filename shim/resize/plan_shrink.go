package resize

import (
	"slices"
	"strings"

	"github.com/mooring-vm/mooring/shim/virt"
)

// shrink plans to take memory from a guest whose balloon is empty: of its virtio-mem
// devices, then its DIMMs, the latest first, and below what it booted with by the
// balloon.
func (b *builder) shrink(all, want uint64) {
	target := max(want, b.is.Domain.Memory.Boot)
	left := b.shrinkVirtioMem(all - target)
	left = b.shrinkDIMMs(left)
	if left > 0 {
		b.refuse(Alignment, "memory: %s is no size that the guest can shrink to by giving devices back: want %s", show(want), b.possible(all))
	}
	if want < target {
		b.belowBoot(target, want)
	}
}

// shrinkVirtioMem plans to take so much from the virtio-mem devices, and returns what
// they cannot give.
func (b *builder) shrinkVirtioMem(left uint64) uint64 {
	for _, d := range slices.Backward(b.is.Domain.Memory.Devices) {
		if d.Model != virt.VirtioMem {
			continue
		}
		give := down(min(left, d.Current), d.Block)
		b.request(d, d.Current-give)
		left -= give
	}
	return left
}

// shrinkDIMMs plans to take whole DIMMs as long as they fit into left, and returns what
// remains of it.
func (b *builder) shrinkDIMMs(left uint64) uint64 {
	for _, d := range slices.Backward(b.is.Domain.Memory.Devices) {
		if d.Model != virt.DIMM {
			continue
		}
		if left == 0 || d.Size > left {
			return left
		}
		b.give = append(b.give, DetachDIMM{
			Alias: d.Alias, Cell: d.Cell, Size: d.Size, Room: b.before(), Bound: b.policy.Bounds.Shrink,
		})
		b.after.Memory -= min(b.after.Memory, lockable(d.Size))
		left -= d.Size
	}
	return left
}

// possible lists, for people, the sizes that the guest can shrink to by its devices.
func (b *builder) possible(all uint64) string {
	m := b.is.Domain.Memory
	var sizes []string
	lowest := all
	for _, d := range m.Devices {
		if d.Model == virt.VirtioMem {
			lowest -= d.Current
		}
	}
	if lowest < all {
		sizes = append(sizes, show(lowest)+" or more in whole blocks of its virtio-mem")
	}
	for _, d := range slices.Backward(m.Devices) {
		if d.Model == virt.DIMM {
			lowest -= d.Size
			sizes = append(sizes, show(lowest))
		}
	}
	return strings.Join(sizes, ", ")
}

// belowBoot plans to leave less to the guest than it booted with.
func (b *builder) belowBoot(from, want uint64) {
	switch m := b.is.Domain.Memory; {
	case !m.Ballooned:
		b.refuse(BelowBoot, "memory: %s is less than the guest booted with, which is %s, and it has no balloon", show(want), show(m.Boot))
	case !b.policy.Balloon:
		b.refuse(BelowBoot, "memory: %s is less than the guest booted with, which is %s, and the node's policy allows no balloon", show(want), show(m.Boot))
	default:
		b.balloon(from, want)
	}
}

// balloon plans that the balloon leaves so much to the guest. QEMU does not take memory
// out of a guest that a device pins.
func (b *builder) balloon(from, to uint64) {
	step := SetBalloon{From: from, To: to, Bound: b.policy.Bounds.Grow, Room: b.then()}
	if to > from {
		b.take = append(b.take, step)
		return
	}
	if !b.policy.Balloon {
		b.refuse(Forbidden, "memory: the guest's balloon is inflated, so that is what it would shrink by, and the node's policy allows no balloon")
	}
	if d := b.is.Definition; d.VFIO+d.NVMe+d.VDPAInterfaces+d.VDPADisks > 0 {
		b.refuse(BelowBoot, "memory: devices pin the guest's memory, so a balloon frees none of it")
	}
	step.Bound, step.Room = b.policy.Bounds.Shrink, b.before()
	b.give = append(b.give, step)
}
