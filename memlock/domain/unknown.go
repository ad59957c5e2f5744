package domain

import (
	"fmt"
	"regexp"

	"github.com/mooring-vm/mooring/api"
)

// countNetworks counts interfaces with a host device from a network's pool. It enters a network if
// the XML does not show the device.
func (def *Definition) countNetworks(interfaces []networkNIC) {
	for _, i := range interfaces {
		running := i.Source.Bridge != "" || i.Source.PortID != ""
		switch {
		case i.Type != "network":
		case i.Actual != nil && i.Actual.Type == "hostdev":
			def.VFIO++
			def.HostBridges++ // at most: the record may have the address
		case i.Actual == nil && !running:
			def.Networks = append(def.Networks, i.Source.Network)
		}
	}
}

var (
	// pins matches arguments of QEMU that may pin memory, or lock it with mlockall, or make
	// libvirt's formula too small: host devices and a virtual IOMMU. A file of -readconfig may have
	// any of them.
	pins = regexp.MustCompile(`\bvfio\b|vhost-vdpa|iommufd|nvme://|\bmem-lock=on|\bmlock=on|` +
		`\b(intel|amd|virtio)-iommu\b|smmuv3|^-readconfig$`)

	// iommufdObject matches an iommufd of QEMU, and openFD its descriptor from another program.
	iommufdObject = regexp.MustCompile(`^iommufd\b|"qom-type"\s*:\s*"iommufd"`)
	openFD        = regexp.MustCompile(`\bfd"?\s*[=:]`)

	// pinsDrive matches the NVMe drive of the host. After -device it is an emulated drive, which
	// pins no memory.
	pinsDrive = regexp.MustCompile(`\bdriver"?\s*[=:]\s*"?nvme\b`)
)

// findArguments enters the arguments that may pin memory.
func (def *Definition) findArguments(all []argument) {
	option := ""
	for _, a := range all {
		if pins.MatchString(a.Value) || option != "-device" && pinsDrive.MatchString(a.Value) {
			def.Arguments = append(def.Arguments, a.Value)
		}
		option = a.Value
	}
}

// perUser is the consequence of the kernel's default accounting of an iommufd.
const perUser = "the kernel counts the pages that iommufd pins for all VMs of QEMU's user on the " +
	"node against this limit, so the limit must cover them all"

// unknown lists the devices that the XML does not show, and the memory that libvirt does not count.
func (def Definition) unknown() (all []string) {
	for _, name := range def.Networks {
		all = append(all, fmt.Sprintf("network %s may pass a host device to the domain, "+
			"and only the XML of the running domain shows that", api.Quote(name)))
	}
	for _, a := range def.Arguments {
		if iommufdObject.MatchString(a) && !openFD.MatchString(a) {
			all = append(all, fmt.Sprintf("QEMU opens the iommufd of its argument %s: %s",
				api.Quote(a), perUser))
			continue
		}
		all = append(all, fmt.Sprintf("libvirt does not count QEMU's argument %s, "+
			"which may pin memory (a <hard_limit> in <memtune> would decide)", api.Quote(a)))
	}
	if def.DescriptorGroup != "" {
		all = append(all, fmt.Sprintf("another program opened the iommufd in descriptor group %s: "+
			"unless it set IOMMU_OPTION_RLIMIT_MODE, %s", api.Quote(def.DescriptorGroup), perUser))
	}
	if def.SEV {
		all = append(all, "SEV pins the guest's memory and firmware, which libvirt does not count "+
			"(a <hard_limit> in <memtune> would decide)")
	}
	return all
}
