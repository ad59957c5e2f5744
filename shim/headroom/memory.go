package headroom

import (
	"slices"
	"strconv"
	"strings"
)

// leastDIMM is what mooring-shim grows a VM by, in KiB.
const leastDIMM = 128 << 10

// planMemory decides what the memory may become, and through which device.
func (p *plan) planMemory() {
	capacity := uint64(p.options.Memory) << 10
	switch {
	case p.hasVirtioMem():
		p.note("memory: kept: the domain has a virtio-mem device of its own")
		return
	case p.MaxMemory > p.Memory:
		p.note("memory: kept at %d of %d MiB: the domain has headroom of its own (the capacity is %d MiB)", p.Memory>>10, p.MaxMemory>>10, p.options.Memory)
		return
	case capacity <= p.Memory:
		p.note("memory: kept at %d MiB: the capacity is %d MiB", p.Memory>>10, p.options.Memory)
		return
	}
	p.size = capacity - p.Memory
	p.chooseDevice()
	if p.device == DIMM {
		p.note("memory: %d MiB, and up to %d MiB in %d DIMM slots", p.Memory>>10, p.options.Memory, p.options.Slots)
		if p.huge > leastDIMM {
			p.note("memory: QEMU takes DIMMs of whole huge pages alone, which are %d MiB each", p.huge>>10)
		}
	} else {
		p.sizeVirtioMem()
	}
	if p.HardLimit != nil {
		p.note("memtune: the hard limit stays at %d MiB: QEMU's memory can grow no further than that", *p.HardLimit>>10)
	}
}

func (p *plan) hasVirtioMem() bool {
	return slices.ContainsFunc(p.memoryDevices(), isVirtioMem)
}

func (p *plan) chooseDevice() {
	obstacle := p.obstacle()
	switch p.device = p.options.Device; {
	case p.device == VirtioMem && obstacle != "":
		p.cannot("virtio-mem: %s: want DIMMs", obstacle)
	case p.device == Automatic && obstacle != "":
		p.device = DIMM
		p.note("memory: DIMMs, and not virtio-mem: %s", obstacle)
	case p.device == Automatic:
		p.device = VirtioMem
	}
}

// obstacle says why QEMU would not start with a virtio-mem device.
func (p *plan) obstacle() string {
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
		p.block = max(p.block, p.huge)
	}
	switch size := p.size / p.block * p.block; {
	case p.huge > 0 && p.block%p.huge != 0:
		p.cannot("virtio-mem: a block of %d MiB: want a multiple of the huge page, which is %d KiB", p.block>>10, p.huge)
	case size == 0:
		p.cannot("virtio-mem: %d MiB beside the domain's %d MiB: want at least a block, which is %d MiB", p.size>>10, p.Memory>>10, p.block>>10)
	default:
		p.size = size
		p.note("memory: %d MiB, and up to %d MiB through a virtio-mem device in blocks of %d MiB", p.Memory>>10, (p.Memory+size)>>10, p.block>>10)
	}
}

func (p *plan) applyMemory() {
	slots := p.options.Slots
	if p.device == VirtioMem {
		slots = 1 // not used by it, but libvirt before 9.5 wants some
		p.applyVirtioMem()
	}
	most := p.Memory + p.size
	if e := p.root.first("maxMemory"); e != nil {
		p.setSize(e, most)
		if slices.Contains([]string{"", "0"}, e.attr("slots")) { // KubeVirt writes the latter
			p.setAttr(e, "slots", strconv.Itoa(slots))
		}
		return
	}
	beside := p.root.first("memory")
	if beside == nil {
		beside = p.root.children[0]
	}
	p.before(beside, number("maxMemory", most, "slots", strconv.Itoa(slots), "unit", "KiB"))
}

// applyVirtioMem adds the device. The domain's memory includes it, empty as it is; what
// the domain starts with is the rest, and its balloon stays at that.
func (p *plan) applyVirtioMem() {
	beside := p.root.children[0]
	if memory := p.root.first("memory"); memory != nil {
		p.setSize(memory, p.Memory+p.size)
		beside = memory
	}
	if p.root.first("currentMemory") == nil {
		p.after(beside, number("currentMemory", p.Memory, "unit", "KiB"))
	}
	if p.orphan != nil {
		target := p.orphan.first("target")
		p.setSize(target.first("size"), p.size)
		p.setSize(target.first("block"), p.block)
		return
	}
	device := node{name: "memory", attrs: []string{"model", "virtio-mem"}, children: []node{{name: "target", children: []node{
		number("size", p.size, "unit", "KiB"),
		number("node", 0),
		number("block", p.block, "unit", "KiB"),
		number("requested", 0, "unit", "KiB"),
	}}}}
	if devices := p.root.first("devices"); devices != nil {
		p.into(devices, device)
		return
	}
	p.into(p.root, node{name: "devices", children: []node{device}})
}

func (p *plan) setSize(e *element, kib uint64) {
	p.setNumber(e, kib)
	if unit := e.attr("unit"); unit != "" && !strings.EqualFold(unit, "KiB") {
		p.setAttr(e, "unit", "KiB")
	}
}
