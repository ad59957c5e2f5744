package headroom

import "strconv"

// maxVCPUs is the largest number of vCPUs without a virtual IOMMU with extended interrupt mode.
const maxVCPUs = 255

// planVCPUs plans the maximum number of vCPUs. Only the number of sockets grows: KubeVirt and
// guests count by sockets.
func (p *plan) planVCPUs() {
	capacity := min(p.options.CPUs, maxVCPUs)
	maximum := capacity / p.perSocket * p.perSocket
	switch {
	case p.vcpuCurrent < p.vcpuMaximum:
		p.addNote("vCPUs: unchanged: the domain already has headroom: %d, maximum %d (capacity %d)",
			p.vcpuCurrent, p.vcpuMaximum, p.options.CPUs)
		return
	case capacity <= p.vcpuMaximum:
		p.addNote("vCPUs: unchanged: %d is at or above the capacity of %d", p.vcpuMaximum, capacity)
		return
	case maximum <= p.vcpuMaximum:
		p.addNote("vCPUs: unchanged: %d: another socket of %d would exceed the capacity of %d",
			p.vcpuMaximum, p.perSocket, capacity)
		return
	}
	p.newVCPUMaximum = maximum
	p.addNote("vCPUs: %d, can grow to %d", p.vcpuCurrent, maximum)
	if capacity < p.options.CPUs {
		p.addNote(
			"vCPUs: below the capacity of %d: more than %d vCPUs need a virtual IOMMU with "+
				"extended interrupt mode",
			p.options.CPUs,
			maxVCPUs,
		)
	}
	if maximum < capacity {
		p.addNote(
			"vCPUs: below the capacity of %d: %d is the largest multiple of the %d vCPUs per "+
				"socket",
			capacity,
			maximum,
			p.perSocket,
		)
	}
}

func (p *plan) applyVCPUs() {
	maximum, current := strconv.Itoa(p.newVCPUMaximum), strconv.Itoa(p.vcpuCurrent)
	if vcpu := p.root.first("vcpu"); vcpu != nil {
		p.setNumber(vcpu, uint64(p.newVCPUMaximum))
		p.setAttr(vcpu, "current", current)
	} else {
		p.insertBefore(
			p.root.children[0],
			node{name: "vcpu", attrs: []string{"current", current}, text: maximum},
		)
	}
	if p.sockets > 0 {
		sockets := p.newVCPUMaximum / p.perSocket
		p.setAttr(p.root.first("cpu", "topology"), "sockets", strconv.Itoa(sockets))
		p.addNote(
			"topology: %d sockets instead of %d, to match the maximum number of vCPUs", sockets,
			p.sockets,
		)
	}
	if listed := p.root.first("vcpus"); len(listed.all("vcpu")) > 0 {
		for id := p.vcpuMaximum; id < p.newVCPUMaximum; id++ {
			p.appendChild(
				listed,
				node{
					name:  "vcpu",
					attrs: []string{"id", strconv.Itoa(id), "enabled", "no", "hotpluggable", "yes"},
				},
			)
		}
	}
	if len(p.root.first("cputune").all("vcpupin")) > 0 {
		p.addNote(
			"cputune: vCPUs %d and above are not pinned and run on any CPU of the domain",
			p.vcpuMaximum,
		)
	}
}
