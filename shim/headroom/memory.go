package headroom

import (
	"slices"
	"strconv"
	"strings"
)

// leastDIMM is what mooring-shim grows a VM by, in KiB.
const dimmUnit = 128 << 10

// planMemory decides what the memory may become, and through which device.
func (p *plan) planMemory() {
	capacity := uint64(p.options.Memory) << 10
	switch {
	case p.hasVirtioMem():
		p.addNote("memory: kept: the domain has a virtio-mem device of its own")
		return
	case p.MaxMemory > p.Memory:
		p.addNote("memory: kept at %d of %d MiB: the domain has headroom of its own (the capacity is %d MiB)", p.Memory>>10, p.MaxMemory>>10, p.options.Memory)
		return
	case capacity <= p.Memory:
		p.addNote("memory: kept at %d MiB: the capacity is %d MiB", p.Memory>>10, p.options.Memory)
		return
	}
	p.addedSize = capacity - p.Memory
	p.chooseDevice()
	if p.device == DIMM {
		p.addNote("memory: %d MiB, and up to %d MiB in %d DIMM slots", p.Memory>>10, p.options.Memory, p.options.Slots)
		if p.hugePage > dimmUnit {
			p.addNote("memory: QEMU takes DIMMs of whole huge pages alone, which are %d MiB each", p.hugePage>>10)
		}
	} else {
		p.sizeVirtioMem()
	}
	if p.HardLimit != nil {
		p.addNote("memtune: the hard limit stays at %d MiB: QEMU's memory can grow no further than that", *p.HardLimit>>10)
	}
}

func (p *plan) hasVirtioMem() bool {
	return slices.ContainsFunc(p.memoryDevices(), isVirtioMem)
}

func (p *plan) chooseDevice() {
	obstacle := p.virtioMemObstacle()
	switch p.device = p.options.Device; {
	case p.device == VirtioMem && obstacle != "":
		p.addReason("virtio-mem: %s: want DIMMs", obstacle)
	case p.device == Automatic && obstacle != "":
		p.device = DIMM
		p.addNote("memory: DIMMs, and not virtio-mem: %s", obstacle)
	case p.device == Automatic:
		p.device = VirtioMem
	}
}

// obstacle says why QEMU would not start with a virtio-mem device.
func (p *plan) virtioMemObstacle() string {
	switch {
	case p.Locked:
		return "QEMU does not lock the memory (memoryBacking/locked) of a VM that has it"
	case p.VDPAInterfaces+p.VDPADisks > 0:
		return "vDPA devices pin all memory, and QEMU does not have both"
	case p.NVMe > 0:
		return "NVMe disks that are passed through pin all memory, and QEMU does not have both"
	}
	return ""
}

func (p *plan) sizeVirtioMem() {
	p.block = max(uint64(p.options.Block)<<10, minBlock<<10)
	if p.options.Block == 0 {
		p.block = max(p.block, p.hugePage)
	}
	switch size := p.addedSize / p.block * p.block; {
	case p.hugePage > 0 && p.block%p.hugePage != 0:
		p.addReason("virtio-mem: a block of %d MiB: want a multiple of the huge page, which is %d KiB", p.block>>10, p.hugePage)
	case size == 0:
		p.addReason("virtio-mem: %d MiB beside the domain's %d MiB: want at least a block, which is %d MiB", p.addedSize>>10, p.Memory>>10, p.block>>10)
	default:
		p.addedSize = size
		p.addNote("memory: %d MiB, and up to %d MiB through a virtio-mem device in blocks of %d MiB", p.Memory>>10, (p.Memory+size)>>10, p.block>>10)
	}
}

func (p *plan) applyMemory() {
	slots := p.options.Slots
	if p.device == VirtioMem {
		slots = 1 // not used by it, but libvirt before 9.5 wants some
		p.applyVirtioMem()
	}
	maximum := p.Memory + p.addedSize
	if e := p.root.first("maxMemory"); e != nil {
		p.setSize(e, maximum)
		if slices.Contains([]string{"", "0"}, e.attr("slots")) { // KubeVirt writes the latter
			p.setAttr(e, "slots", strconv.Itoa(slots))
		}
		return
	}
	sibling := p.root.first("memory")
	if sibling == nil {
		sibling = p.root.children[0]
	}
	p.insertBefore(sibling, numberNode("maxMemory", maximum, "slots", strconv.Itoa(slots), "unit", "KiB"))
}

// applyVirtioMem adds the device. The domain's memory includes it, empty as it is; what
// the domain starts with is the rest, and its balloon stays at that.
func (p *plan) applyVirtioMem() {
	sibling := p.root.children[0]
	if memory := p.root.first("memory"); memory != nil {
		p.setSize(memory, p.Memory+p.addedSize)
		sibling = memory
	}
	if p.root.first("currentMemory") == nil {
		p.insertAfter(sibling, numberNode("currentMemory", p.Memory, "unit", "KiB"))
	}
	if p.repeatedDevice != nil {
		target := p.repeatedDevice.first("target")
		p.setSize(target.first("size"), p.addedSize)
		p.setSize(target.first("block"), p.block)
		return
	}
	device := node{name: "memory", attrs: []string{"model", "virtio-mem"}, children: []node{{name: "target", children: []node{
		numberNode("size", p.addedSize, "unit", "KiB"),
		numberNode("node", 0),
		numberNode("block", p.block, "unit", "KiB"),
		numberNode("requested", 0, "unit", "KiB"),
	}}}}
	if devices := p.root.first("devices"); devices != nil {
		p.appendChild(devices, device)
		return
	}
	p.appendChild(p.root, node{name: "devices", children: []node{device}})
}

func (p *plan) setSize(e *element, kib uint64) {
	p.setNumber(e, kib)
	if unit := e.attr("unit"); unit != "" && !strings.EqualFold(unit, "KiB") {
		p.setAttr(e, "unit", "KiB")
	}
}
