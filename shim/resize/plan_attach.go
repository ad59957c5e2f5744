package resize

// planAttachVirtioMem plans a virtio-mem device up to the domain's maximum, with the missing memory
// requested. The device goes to the first cell, as with KubeVirt.
func (b *builder) planAttachVirtioMem(plugged, desired uint64) {
	m := b.observed.Domain.Memory
	if m.Cells == 0 {
		b.refuse(NoCell, "memory: the domain has no headroom: a memory device needs a NUMA cell")
	}
	if obstacle := b.virtioMemObstacle(); obstacle != "" {
		b.refuse(NotPrepared, "memory: the domain has no headroom: QEMU does not support a "+
			"virtio-mem device with %s", obstacle)
	}
	device, missing := attachedDevice(m), desired-plugged
	if missing > device.Size {
		b.refuseAboveMaximum(desired)
	}
	if rest := missing % device.Block; rest > 0 {
		b.refuseAlignment(desired, desired-rest, desired-rest+device.Block, device.Block)
	}
	b.grow = append(b.grow, AttachVirtioMem{
		Size:      device.Size,
		Block:     device.Block,
		Requested: missing,
		Known:     aliases(m),
		SizeLimit: b.limitForDesired(),
		Within:    b.policy.Timeouts.Grow,
	})
	b.definition.Memory += definitionKiB(device.Size)
}

// virtioMemObstacle names the part of the domain that excludes virtio-mem, or "".
func (b *builder) virtioMemObstacle() string {
	switch d := b.observed.Definition; {
	case d.Locked:
		return "locked memory (memoryBacking/locked)"
	case d.VDPAInterfaces+d.VDPADisks > 0:
		return "vDPA devices, which pin all memory"
	case d.NVMe > 0:
		return "passed-through NVMe disks, which pin all memory"
	}
	return ""
}
