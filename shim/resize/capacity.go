package resize

import (
	"github.com/mooring-vm/mooring/shim/virt"
)

// virtioMemBlock is the smallest block, in bytes, of a new virtio-mem device, as with KubeVirt.
const virtioMemBlock = 2 * mebi

// GrowthUnit returns the unit, in bytes, in which the guest's memory grows; 0 if it cannot.
func GrowthUnit(m virt.Memory) uint64 {
	for _, d := range m.Devices {
		if d.Model == virt.VirtioMem {
			return d.Block
		}
	}
	switch {
	case takesVirtioMem(m):
		return attachedDevice(m).Block
	case m.Slots > 0:
		return DIMMBlock
	}
	return 0
}

// LargestMemory returns the largest memory, in bytes, that the guest can get by its devices.
func LargestMemory(m virt.Memory) uint64 {
	total := pluggedMemory(m, capacity)
	switch {
	case hasVirtioMem(m):
		return total
	case takesVirtioMem(m) && m.Cells > 0:
		return m.Boot + attachedDevice(m).Size
	case dimms(m) < m.Slots && m.Cells > 0:
		return total + roundDown(m.Maximum-min(total, m.Maximum), DIMMBlock)
	}
	return total
}

// takesVirtioMem reports whether memory grows with a new virtio-mem device. KubeVirt defines its
// VMs this way: a maximum, no slots and no memory device.
func takesVirtioMem(m virt.Memory) bool {
	return m.Maximum > 0 && m.Slots == 0 && len(m.Devices) == 0
}

// attachedDevice returns the new device of such a domain. It has the same size as KubeVirt's own
// device, so KubeVirt later uses it and attaches no second one.
func attachedDevice(m virt.Memory) virt.MemoryDevice {
	block := max(virtioMemBlock, m.HugePage)
	return virt.MemoryDevice{
		Model: virt.VirtioMem,
		Size:  roundDown(m.Maximum-min(m.Boot, m.Maximum), block),
		Block: block,
	}
}
