package headroom

import (
	"slices"
	"strconv"
	"strings"

	"github.com/mooring-vm/mooring/api"
)

// dimmUnit is the size of the DIMMs that mooring-shim plugs, in KiB.
const dimmUnit = 128 << 10

// planMemory plans the maximum memory and the device to reach it.
func (p *plan) planMemory() {
	capacity := uint64(p.options.Memory) << 10
	switch {
	case p.hasVirtioMem():
		p.addNote("memory: unchanged: the domain already has a virtio-mem device")
		return
	case p.MaxMemory > p.Memory:
		p.addNote(
			"memory: unchanged: the domain already has headroom: %s, maximum %s (capacity %s)",
			fromKiB(p.Memory), fromKiB(p.MaxMemory), fromKiB(capacity),
		)
		return
	case capacity <= p.Memory:
		p.addNote(
			"memory: unchanged: %s is at or above the capacity of %s", fromKiB(p.Memory),
			fromKiB(capacity),
		)
		return
	}
	p.addedSize = capacity - p.Memory
	p.chooseDevice()
	if p.device == DIMM {
		p.addNote("memory: %s, can grow to %s with DIMMs (%d slots)",
			fromKiB(p.Memory), fromKiB(capacity), p.options.Slots)
		if p.hugePage > dimmUnit {
			p.addNote(
				"memory: the size of a DIMM must be a multiple of the huge page size, %s",
				fromKiB(p.hugePage),
			)
		}
	} else {
		p.sizeVirtioMem()
	}
	if p.HardLimit != nil {
		p.addNote(
			"memtune: unchanged: the hard limit bounds QEMU's memory at %s", fromKiB(*p.HardLimit),
		)
	}
}

func (p *plan) hasVirtioMem() bool {
	return slices.ContainsFunc(p.memoryDevices(), isVirtioMem)
}

func (p *plan) chooseDevice() {
	obstacle := p.virtioMemObstacle()
	switch p.device = p.options.Device; {
	case p.device == VirtioMem && obstacle != "":
		p.addReason("virtio-mem: %s: use DIMMs", obstacle)
	case p.device == Automatic && obstacle != "":
		p.device = DIMM
		p.addNote("memory: DIMMs instead of virtio-mem: %s", obstacle)
	case p.device == Automatic:
		p.device = VirtioMem
	}
}

// virtioMemObstacle returns the reason why QEMU would not start with a virtio-mem device, or "".
func (p *plan) virtioMemObstacle() string {
	switch {
	case p.Locked:
		return "QEMU does not support it with locked memory (memoryBacking/locked)"
	case p.VDPAInterfaces+p.VDPADisks > 0:
		return "QEMU does not support it with vDPA devices, which pin all memory"
	case p.NVMe > 0:
		return "QEMU does not support it with passed-through NVMe disks, which pin all memory"
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
		p.addReason("virtio-mem: block size %s: want a multiple of the huge page size, %s",
			fromKiB(p.block), fromKiB(p.hugePage))
	case size == 0:
		p.addReason(
			"virtio-mem: %s between the domain's memory, %s, and the capacity: want at least one "+
				"block, %s",
			fromKiB(p.addedSize),
			fromKiB(p.Memory),
			fromKiB(p.block),
		)
	default:
		p.addedSize = size
		p.addNote("memory: %s, can grow to %s with virtio-mem (block size %s)",
			fromKiB(p.Memory), fromKiB(p.Memory+size), fromKiB(p.block))
	}
}

func (p *plan) applyMemory() {
	slots := p.options.Slots
	if p.device == VirtioMem {
		slots = 1 // virtio-mem needs none, but libvirt before 9.5 requires one
		p.applyVirtioMem()
	}
	maximum := p.Memory + p.addedSize
	if e := p.root.first("maxMemory"); e != nil {
		p.setSize(e, maximum)
		if slices.Contains([]string{"", "0"}, e.attr("slots")) { // KubeVirt writes 0
			p.setAttr(e, "slots", strconv.Itoa(slots))
		}
		return
	}
	sibling := p.root.first("memory")
	if sibling == nil {
		sibling = p.root.children[0]
	}
	p.insertBefore(
		sibling, numberNode("maxMemory", maximum, "slots", strconv.Itoa(slots), "unit", "KiB"),
	)
}

// applyVirtioMem adds the device. In libvirt the domain's memory includes the empty device, so it
// grows by the device's size. The current memory stays at the old value.
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
	device := node{
		name:  "memory",
		attrs: []string{"model", "virtio-mem"},
		children: []node{{name: "target", children: []node{
			numberNode("size", p.addedSize, "unit", "KiB"),
			numberNode("node", 0),
			numberNode("block", p.block, "unit", "KiB"),
			numberNode("requested", 0, "unit", "KiB"),
		}}},
	}
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

// fromKiB converts KiB to a quantity for messages.
func fromKiB(kib uint64) api.Bytes { return api.Bytes(kib << 10) }
