package domain

import (
	"libvirt.org/go/libvirtxml"
)

// countDisks counts disks as libvirt does. A disk counts once for all NVMe controllers in its
// chain, but for each of its vDPA images.
func (def *Definition) countDisks(disks []chain) {
	for _, disk := range disks {
		nvme := false
		for image := &disk; image != nil; image = image.BackingStore {
			switch image.Type {
			case "nvme":
				nvme = true
			case "vhostvdpa":
				def.VDPADisks++
			}
		}
		if nvme {
			def.NVMe++
		}
	}
}

func (def *Definition) countDevices(d *libvirtxml.Domain) {
	if d.Devices == nil {
		def.HostBridges = 1
		return
	}
	withoutAddress := 0
	for _, h := range d.Devices.Hostdevs {
		if h.SubsysPCI == nil && h.SubsysMDev == nil {
			continue
		}
		def.VFIO++
		def.findDescriptorGroup(d.IOMMUFD, h.SubsysPCI)
		if h.SubsysPCI != nil && needsAddress(h.Address) {
			withoutAddress++
		}
	}
	for _, i := range d.Devices.Interfaces {
		switch {
		case i.Source == nil:
		case i.Source.VDPA != nil:
			def.VDPAInterfaces++
		// libvirt treats it as a host device
		case i.Source.Hostdev != nil && i.Source.Hostdev.PCI != nil:
			def.VFIO++
			if needsAddress(i.Address) {
				withoutAddress++
			}
		}
	}
	def.IOMMU = len(d.Devices.IOMMUs) > 0 || d.Devices.IOMMU != nil
	def.HostBridges = max(hostBridges(d.Devices.Controllers), 1) + withoutAddress
}

// findDescriptorGroup enters the group if a PCI host device uses the domain's iommufd. The driver
// of a device overrides the domain.
func (def *Definition) findDescriptorGroup(
	fd *libvirtxml.DomainIOMMUFD, device *libvirtxml.DomainHostdevSubsysPCI,
) {
	if fd == nil || device == nil {
		return
	}
	enabled := fd.Enabled == "yes"
	if device.Driver != nil && device.Driver.IommuFD != "" {
		enabled = device.Driver.IommuFD == "yes"
	}
	if enabled {
		def.DescriptorGroup = fd.FDGroup
	}
}

// needsAddress reports whether libvirt must still choose the address of a device. A bare type='pci'
// is no address either.
func needsAddress(a *libvirtxml.DomainAddress) bool {
	return a == nil || a.PCI != nil && zero(a.PCI.Domain) && zero(a.PCI.Bus) && zero(a.PCI.Slot)
}

func zero(n *uint) bool { return n == nil || *n == 0 }

// hostBridges counts the PCI host bridges of a pSeries guest in the XML.
func hostBridges(controllers []libvirtxml.DomainController) int {
	n := 0
	for _, c := range controllers {
		if c.PCI != nil && c.Model == "pci-root" {
			n++
		}
	}
	return n
}
