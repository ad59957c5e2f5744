package resize

import (
	"slices"
	"strings"

	"github.com/mooring-vm/mooring/shim/virt"
)

// planShrink plans to shrink a guest without an inflated balloon: first its virtio-mem devices,
// then its DIMMs, the latest first. Below the boot memory it uses the balloon.
func (b *builder) planShrink(plugged, desired uint64) {
	bySize := max(desired, b.observed.Domain.Memory.Boot)
	remaining := b.planShrinkVirtioMem(plugged - bySize)
	remaining = b.planShrinkDIMMs(remaining)
	if remaining > 0 {
		b.refuse(Alignment, "memory: %s is not possible with the guest's devices: want %s",
			formatBytes(desired), b.reachableSizes(plugged))
	}
	if desired < bySize {
		b.planBelowBoot(bySize, desired)
	}
}

// planShrinkVirtioMem plans to shrink the virtio-mem devices. It returns the bytes that they cannot
// release.
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

// planShrinkDIMMs plans to unplug whole DIMMs that fit into remaining. It returns the
// remaining bytes.
func (b *builder) planShrinkDIMMs(remaining uint64) uint64 {
	for _, d := range slices.Backward(b.observed.Domain.Memory.Devices) {
		if d.Model != virt.DIMM {
			continue
		}
		if remaining == 0 || d.Size > remaining {
			return remaining
		}
		b.shrink = append(b.shrink, DetachDIMM{
			Alias:     d.Alias,
			Cell:      d.Cell,
			Size:      d.Size,
			SizeLimit: b.limitForObserved(),
			Within:    b.policy.Timeouts.Shrink,
		})
		b.definition.Memory -= min(b.definition.Memory, definitionKiB(d.Size))
		remaining -= d.Size
	}
	return remaining
}

// reachableSizes lists the sizes below the current one that the guest's devices allow.
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
		sizes = append(sizes, formatBytes(lowest)+" or more in whole virtio-mem blocks")
	}
	for _, d := range slices.Backward(m.Devices) {
		if d.Model == virt.DIMM {
			lowest -= d.Size
			sizes = append(sizes, formatBytes(lowest))
		}
	}
	return strings.Join(sizes, ", ")
}

// planBelowBoot plans to leave less than the boot memory to the guest.
func (b *builder) planBelowBoot(from, desired uint64) {
	switch m := b.observed.Domain.Memory; {
	case !m.Ballooned:
		b.refuse(
			BelowBoot, "memory: %s is below the boot memory, %s, and the guest has no balloon",
			formatBytes(desired), formatBytes(m.Boot),
		)
	case !b.policy.Balloon:
		b.refuse(
			BelowBoot,
			"memory: %s is below the boot memory, %s, and the node's policy allows no balloon",
			formatBytes(desired),
			formatBytes(m.Boot),
		)
	default:
		b.planBalloon(from, desired)
	}
}

// planBalloon plans a size of the balloon. QEMU cannot take memory that a device pins.
func (b *builder) planBalloon(from, to uint64) {
	step := SetBalloon{
		From:      from,
		To:        to,
		Within:    b.policy.Timeouts.Grow,
		SizeLimit: b.limitForDesired(),
	}
	if to > from {
		b.grow = append(b.grow, step)
		return
	}
	if !b.policy.Balloon {
		b.refuse(
			Forbidden,
			"memory: the guest would shrink by its inflated balloon, and the node's policy "+
				"allows no balloon",
		)
	}
	if d := b.observed.Definition; d.VFIO+d.NVMe+d.VDPAInterfaces+d.VDPADisks > 0 {
		b.refuse(BelowBoot, "memory: devices pin the guest's memory, so a balloon frees none of it")
	}
	step.Within, step.SizeLimit = b.policy.Timeouts.Shrink, b.limitForObserved()
	b.shrink = append(b.shrink, step)
}
