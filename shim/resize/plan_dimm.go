package resize

import (
	"github.com/mooring-vm/mooring/shim/virt"
)

// planGrowDIMM plans one DIMM for all missing memory.
func (b *builder) planGrowDIMM(plugged, desired uint64) {
	m := b.observed.Domain.Memory
	if m.Maximum == 0 {
		b.refuse(
			NotPrepared,
			"memory: the domain has no headroom: want a virtio-mem device, or a <maxMemory> with "+
				"slots for DIMMs",
		)
		return
	}
	total := pluggedMemory(m, capacity)
	if desired > m.Maximum || desired-plugged > m.Maximum-min(total, m.Maximum) {
		b.refuseAboveMaximum(desired)
	}
	if used := dimms(m); used >= m.Slots {
		b.refuse(NoSlot, "memory: all %d memory slots of the domain are in use", m.Slots)
	}
	if rest := (desired - plugged) % DIMMBlock; rest > 0 {
		b.refuseAlignment(desired, desired-rest, desired-rest+DIMMBlock, DIMMBlock)
	}
	if cell, ok := b.chooseCell(); ok {
		step := AttachDIMM{
			Cell:      cell,
			Size:      desired - plugged,
			Known:     aliases(m),
			SizeLimit: b.limitForDesired(),
			Within:    b.policy.Timeouts.Grow,
		}
		b.grow = append(b.grow, step)
		b.definition.Memory += definitionKiB(desired - plugged)
	}
}

func (b *builder) refuseAboveMaximum(desired uint64) {
	b.refuse(
		AboveMaximum, "memory: %s exceeds the domain's <maxMemory>, %s", formatBytes(desired),
		formatBytes(b.observed.Domain.Memory.Maximum),
	)
}

// chooseCell returns the NUMA cell with the least device memory, the first of several.
func (b *builder) chooseCell() (int, bool) {
	m := b.observed.Domain.Memory
	if m.Cells == 0 {
		b.refuse(NoCell, "memory: the domain has no headroom: a DIMM needs a NUMA cell")
		return 0, false
	}
	sums := make([]uint64, m.Cells)
	for _, d := range m.Devices {
		if d.Cell >= 0 && d.Cell < m.Cells {
			sums[d.Cell] += d.Size
		}
	}
	best := 0
	for cell, sum := range sums {
		if sum < sums[best] {
			best = cell
		}
	}
	return best, true
}

func dimms(m virt.Memory) int {
	n := 0
	for _, d := range m.Devices {
		if d.Model == virt.DIMM {
			n++
		}
	}
	return n
}

func aliases(m virt.Memory) []string {
	all := make([]string, 0, len(m.Devices))
	for _, d := range m.Devices {
		all = append(all, d.Alias)
	}
	return all
}
