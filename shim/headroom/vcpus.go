package headroom

import "strconv"

// maxVCPUs is the most that a machine has without a virtual IOMMU with extended
// interrupt mode.
const maxVCPUs = 255

// planVCPUs decides how many vCPUs there may become. The sockets grow, as they are
// what KubeVirt and guests count by; what is in a socket stays.
func (p *plan) planVCPUs() {
	capacity := min(p.options.CPUs, maxVCPUs)
	most := capacity / p.perSocket * p.perSocket
	switch {
	case p.current < p.most:
		p.note("vCPUs: kept at %d of %d: the domain has headroom of its own (the capacity is %d)", p.current, p.most, p.options.CPUs)
		return
	case capacity <= p.most:
		p.note("vCPUs: kept at %d: the capacity is %d", p.most, capacity)
		return
	case most <= p.most:
		p.note("vCPUs: kept at %d: another socket has %d, and the capacity is %d", p.most, p.perSocket, capacity)
		return
	}
	p.maxVCPUs = most
	p.note("vCPUs: %d, and up to %d", p.current, most)
	if capacity < p.options.CPUs {
		p.note("vCPUs: not up to the capacity of %d: more than %d take a virtual IOMMU with extended interrupt mode", p.options.CPUs, maxVCPUs)
	}
	if most < capacity {
		p.note("vCPUs: not up to the capacity of %d: whole sockets of %d make %d", capacity, p.perSocket, most)
	}
}

func (p *plan) applyVCPUs() {
	most, current := strconv.Itoa(p.maxVCPUs), strconv.Itoa(p.current)
	if vcpu := p.root.first("vcpu"); vcpu != nil {
		p.setNumber(vcpu, uint64(p.maxVCPUs))
		p.setAttr(vcpu, "current", current)
	} else {
		p.before(p.root.children[0], node{name: "vcpu", attrs: []string{"current", current}, text: most})
	}
	if p.sockets > 0 {
		sockets := p.maxVCPUs / p.perSocket
		p.setAttr(p.root.first("cpu", "topology"), "sockets", strconv.Itoa(sockets))
		p.note("topology: %d sockets instead of %d: it has to make all vCPUs that there may become", sockets, p.sockets)
	}
	if listed := p.root.first("vcpus"); len(listed.all("vcpu")) > 0 {
		for id := p.most; id < p.maxVCPUs; id++ {
			p.into(listed, node{name: "vcpu", attrs: []string{"id", strconv.Itoa(id), "enabled", "no", "hotpluggable", "yes"}})
		}
	}
	if len(p.root.first("cputune").all("vcpupin")) > 0 {
		p.note("cputune: the vCPUs from %d on are not pinned, and run where the domain may", p.most)
	}
}
