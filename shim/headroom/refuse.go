package headroom

import (
	"slices"
	"strings"
)

// refuse collects the reasons why the planned changes are impossible.
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

// refuseMachine checks that QEMU can plug vCPUs and memory into the machine. For other
// architectures the remaining checks make no sense.
func (p *plan) refuseMachine() {
	if kind := p.root.attr("type"); kind != "kvm" && kind != "qemu" {
		p.addReason("type %q: want kvm or qemu", kind)
	}
	if p.Arch != "x86_64" {
		p.addReason(
			"os/type arch %q: want x86_64: other architectures plug vCPUs and memory differently "+
				"or not at all",
			p.Arch,
		)
		return
	}
	if machine := p.root.first("os", "type").attr("machine"); !supportsHotplug(machine) {
		p.addReason("os/type machine %q: want a pc or q35 machine", machine)
	}
	if p.root.first("features", "acpi") == nil && (p.growsVCPUs() || p.device == DIMM) {
		p.addReason(
			"features: <acpi/> is missing: the guest discovers vCPUs and DIMMs through ACPI",
		)
	}
}

// supportsHotplug reports whether a machine type can plug vCPUs and DIMMs. Without a type libvirt's
// default applies, which can.
func supportsHotplug(machine string) bool {
	return machine == "" ||
		slices.ContainsFunc([]string{"pc", "q35", "ubuntu"}, func(kind string) bool {
			return machine == kind || strings.HasPrefix(machine, kind+"-")
		})
}

// refuseGuest checks for guests that must not change.
func (p *plan) refuseGuest() {
	if p.root.first("launchSecurity") != nil {
		p.addReason(
			"launchSecurity: want none: the firmware of an encrypted guest measures vCPUs and " +
				"memory at its start",
		)
	}
	for _, s := range p.root.first("cputune").all("vcpusched") {
		if kind := s.attr("scheduler"); kind == "fifo" || kind == "rr" {
			p.addReason(
				"cputune/vcpusched scheduler %q: new vCPUs and memory would break the guarantees "+
					"of a real-time guest",
				kind,
			)
			break
		}
	}
	if len(p.cells) > 1 && len(p.root.first("numatune").all("memnode")) > 0 {
		p.addReason(
			"numatune/memnode with %d NUMA cells: the host node for new memory is unknown",
			len(p.cells),
		)
	}
}

func (p *plan) refuseVCPUs() {
	if product := p.sockets * p.perSocket; p.sockets > 0 && product != p.vcpuMaximum {
		p.addReason(
			"cpu/topology has %d vCPUs and vcpu has %d: want the same number", product,
			p.vcpuMaximum,
		)
	}
	for i, c := range p.cells {
		if all := c.vcpus.List(); len(all) > 0 && all[len(all)-1] >= p.vcpuMaximum {
			p.addReason(
				"cpu/numa/cell[%d] cpus %q: want numbers below %d, the number of vCPUs", i, c.vcpus,
				p.vcpuMaximum,
			)
		}
	}
}

func (p *plan) refuseMemory() {
	if p.hugePage > 0 && p.Memory%p.hugePage != 0 {
		p.addReason(
			"memory: %s: want a multiple of the huge page size, %s", fromKiB(p.Memory),
			fromKiB(p.hugePage),
		)
	}
	if p.repeatedDevice != nil && p.device == DIMM {
		p.addReason(
			"devices/memory: a virtio-mem device without maxMemory: want none for growth by DIMMs",
		)
	}
	if len(p.cells) == 0 && len(p.memoryDevices()) > 0 {
		p.addReason("devices/memory without a NUMA cell: the size of the boot memory is ambiguous")
	}
}
