package headroom

import "strconv"

// maxVCPUs is the most that a machine has without a virtual IOMMU with extended
// interrupt mode.
const maxVCPUs = 255

// planVCPUs decides how many vCPUs there may become. The sockets grow, as they are
// what KubeVirt and guests count by; what is in a socket stays.
func (p *plan) planVCPUs() {
	capacity := min(p.options.CPUs, maxVCPUs)
	maximum := capacity / p.perSocket * p.perSocket
	switch {
	case p.vcpuCurrent < p.vcpuMaximum:
		p.addNote("vCPUs: kept at %d of %d: the domain has headroom of its own (the capacity is %d)", p.vcpuCurrent, p.vcpuMaximum, p.options.CPUs)
		return
	case capacity <= p.vcpuMaximum:
		p.addNote("vCPUs: kept at %d: the capacity is %d", p.vcpuMaximum, capacity)
		return
	case maximum <= p.vcpuMaximum:
		p.addNote("vCPUs: kept at %d: another socket has %d, and the capacity is %d", p.vcpuMaximum, p.perSocket, capacity)
		return
	}
	p.newVCPUMaximum = maximum
	p.addNote("vCPUs: %d, and up to %d", p.vcpuCurrent, maximum)
	if capacity < p.options.CPUs {
		p.addNote("vCPUs: not up to the capacity of %d: more than %d take a virtual IOMMU with extended interrupt mode", p.options.CPUs, maxVCPUs)
	}
	if maximum < capacity {
		p.addNote("vCPUs: not up to the capacity of %d: whole sockets of %d make %d", capacity, p.perSocket, maximum)
	}
}

func (p *plan) applyVCPUs() {
	maximum, current := strconv.Itoa(p.newVCPUMaximum), strconv.Itoa(p.vcpuCurrent)
	if vcpu := p.root.first("vcpu"); vcpu != nil {
		p.setNumber(vcpu, uint64(p.newVCPUMaximum))
		p.setAttr(vcpu, "current", current)
	} else {
		p.insertBefore(p.root.children[0], node{name: "vcpu", attrs: []string{"current", current}, text: maximum})
	}
	if p.sockets > 0 {
		sockets := p.newVCPUMaximum / p.perSocket
		p.setAttr(p.root.first("cpu", "topology"), "sockets", strconv.Itoa(sockets))
		p.addNote("topology: %d sockets instead of %d: it has to make all vCPUs that there may become", sockets, p.sockets)
	}
	if listed := p.root.first("vcpus"); len(listed.all("vcpu")) > 0 {
		for id := p.vcpuMaximum; id < p.newVCPUMaximum; id++ {
			p.appendChild(listed, node{name: "vcpu", attrs: []string{"id", strconv.Itoa(id), "enabled", "no", "hotpluggable", "yes"}})
		}
	}
	if len(p.root.first("cputune").all("vcpupin")) > 0 {
		p.addNote("cputune: the vCPUs from %d on are not pinned, and run where the domain may", p.vcpuMaximum)
	}
}
