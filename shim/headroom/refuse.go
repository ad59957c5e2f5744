package headroom

import (
	"slices"
	"strings"
)

// refuse finds what keeps the domain from what is planned.
func (p *plan) refuse() {
	p.refuseMachine()
	p.refuseGuest()
	if p.growsVCPUs() {
		p.refuseVCPUs()
	}
	if p.growsMemory() {
		p.refuseMemory()
	}
}

// refuseMachine is about what QEMU does not plug into. What an x86 machine is to be does
// not matter to others.
func (p *plan) refuseMachine() {
	if kind := p.root.attr("type"); kind != "kvm" && kind != "qemu" {
		p.addReason("type %q: want kvm or qemu", kind)
	}
	if p.Arch != "x86_64" {
		p.addReason("os/type arch %q: want x86_64: others plug in vCPUs and memory by other rules, or not at all", p.Arch)
		return
	}
	if machine := p.root.first("os", "type").attr("machine"); !supportsHotplug(machine) {
		p.addReason("os/type machine %q: want a pc or q35 machine", machine)
	}
	if p.root.first("features", "acpi") == nil && (p.growsVCPUs() || p.device == DIMM) {
		p.addReason("features: there is no <acpi/>: the guest learns of vCPUs and DIMMs through ACPI")
	}
}

// plugs reports whether a machine type has slots for vCPUs and DIMMs. Without a type it
// is libvirt's default, which does.
func supportsHotplug(machine string) bool {
	return machine == "" || slices.ContainsFunc([]string{"pc", "q35", "ubuntu"}, func(kind string) bool {
		return machine == kind || strings.HasPrefix(machine, kind+"-")
	})
}

// refuseGuest is about guests that must not change.
func (p *plan) refuseGuest() {
	if p.root.first("launchSecurity") != nil {
		p.addReason("launchSecurity: the firmware measures an encrypted guest as it starts: want none")
	}
	for _, s := range p.root.first("cputune").all("vcpusched") {
		if kind := s.attr("scheduler"); kind == "fifo" || kind == "rr" {
			p.addReason("cputune/vcpusched scheduler %q: new vCPUs and memory would break the promises of a real-time guest", kind)
			break
		}
	}
	if len(p.cells) > 1 && len(p.root.first("numatune").all("memnode")) > 0 {
		p.addReason("numatune/memnode with %d NUMA cells: which of the host's nodes are to take what is new is not known", len(p.cells))
	}
}

func (p *plan) refuseVCPUs() {
	if product := p.sockets * p.perSocket; p.sockets > 0 && product != p.vcpuMaximum {
		p.addReason("cpu/topology makes %d vCPUs, and vcpu says %d: want the same", product, p.vcpuMaximum)
	}
	for i, c := range p.cells {
		if all := c.vcpus.List(); len(all) > 0 && all[len(all)-1] >= p.vcpuMaximum {
			p.addReason("cpu/numa/cell[%d] cpus %q: want them below %d, which is how many vCPUs there are", i, c.vcpus, p.vcpuMaximum)
		}
	}
}

func (p *plan) refuseMemory() {
	if p.hugePage > 0 && p.Memory%p.hugePage != 0 {
		p.addReason("memory: %d KiB: want a multiple of the huge page, which is %d KiB", p.Memory, p.hugePage)
	}
	if p.repeatedDevice != nil && p.device == DIMM {
		p.addReason("devices/memory: a virtio-mem device without maxMemory: want none where DIMMs are to be plugged in")
	}
	if len(p.cells) == 0 && len(p.memoryDevices()) > 0 {
		p.addReason("devices/memory without a NUMA cell: how much of the memory is theirs is not clear")
	}
}
