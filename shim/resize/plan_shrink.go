package resize

import (
	"slices"
	"strings"

	"github.com/mooring-vm/mooring/shim/virt"
)

// shrink plans to take memory from a guest whose balloon is empty: of its virtio-mem
// devices, then its DIMMs, the latest first, and below what it booted with by the
// balloon.
func (b *builder) planShrink(plugged, desired uint64) {
	bySize := max(desired, b.observed.Domain.Memory.Boot)
	remaining := b.planShrinkVirtioMem(plugged - bySize)
	remaining = b.planShrinkDIMMs(remaining)
	if remaining > 0 {
		b.refuse(Alignment, "memory: %s is no size that the guest can shrink to by giving devices back: want %s", formatBytes(desired), b.reachableSizes(plugged))
	}
	if desired < bySize {
		b.planBelowBoot(bySize, desired)
	}
}

// shrinkVirtioMem plans to take so much from the virtio-mem devices, and returns what
// they cannot give.
func (b *builder) planShrinkVirtioMem(remaining uint64) uint64 {
	for _, d := range slices.Backward(b.observed.Domain.Memory.Devices) {
		if d.Model != virt.VirtioMem {
			continue
		}
		give := roundDown(min(remaining, d.Current), d.Block)
		b.planRequest(d, d.Current-give)
		remaining -= give
	}
	return remaining
}

// shrinkDIMMs plans to take whole DIMMs as long as they fit into left, and returns what
// remains of it.
func (b *builder) planShrinkDIMMs(remaining uint64) uint64 {
	for _, d := range slices.Backward(b.observed.Domain.Memory.Devices) {
		if d.Model != virt.DIMM {
			continue
		}
		if remaining == 0 || d.Size > remaining {
			return remaining
		}
		b.shrink = append(b.shrink, DetachDIMM{
			Alias: d.Alias, Cell: d.Cell, Size: d.Size, SizeLimit: b.limitForObserved(), Within: b.policy.Timeouts.Shrink,
		})
		b.definition.Memory -= min(b.definition.Memory, definitionKiB(d.Size))
		remaining -= d.Size
	}
	return remaining
}

// possible lists, for people, the sizes that the guest can shrink to by its devices.
func (b *builder) reachableSizes(plugged uint64) string {
	m := b.observed.Domain.Memory
	var sizes []string
	lowest := plugged
	for _, d := range m.Devices {
		if d.Model == virt.VirtioMem {
			lowest -= d.Current
		}
	}
	if lowest < plugged {
		sizes = append(sizes, formatBytes(lowest)+" or more in whole blocks of its virtio-mem")
	}
	for _, d := range slices.Backward(m.Devices) {
		if d.Model == virt.DIMM {
			lowest -= d.Size
			sizes = append(sizes, formatBytes(lowest))
		}
	}
	return strings.Join(sizes, ", ")
}

// belowBoot plans to leave less to the guest than it booted with.
func (b *builder) planBelowBoot(from, desired uint64) {
	switch m := b.observed.Domain.Memory; {
	case !m.Ballooned:
		b.refuse(BelowBoot, "memory: %s is less than the guest booted with, which is %s, and it has no balloon", formatBytes(desired), formatBytes(m.Boot))
	case !b.policy.Balloon:
		b.refuse(BelowBoot, "memory: %s is less than the guest booted with, which is %s, and the node's policy allows no balloon", formatBytes(desired), formatBytes(m.Boot))
	default:
		b.planBalloon(from, desired)
	}
}

// balloon plans that the balloon leaves so much to the guest. QEMU does not take memory
// out of a guest that a device pins.
func (b *builder) planBalloon(from, to uint64) {
	step := SetBalloon{From: from, To: to, Within: b.policy.Timeouts.Grow, SizeLimit: b.limitForDesired()}
	if to > from {
		b.grow = append(b.grow, step)
		return
	}
	if !b.policy.Balloon {
		b.refuse(Forbidden, "memory: the guest's balloon is inflated, so that is what it would shrink by, and the node's policy allows no balloon")
	}
	if d := b.observed.Definition; d.VFIO+d.NVMe+d.VDPAInterfaces+d.VDPADisks > 0 {
		b.refuse(BelowBoot, "memory: devices pin the guest's memory, so a balloon frees none of it")
	}
	step.Within, step.SizeLimit = b.policy.Timeouts.Shrink, b.limitForObserved()
	b.shrink = append(b.shrink, step)
}
