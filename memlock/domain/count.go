package domain

import (
	"libvirt.org/go/libvirtxml"
)

// chain is a disk image with those that it is based on. libvirtxml does not know
// NVMe controllers among the latter.
type chain struct {
	Type         string `xml:"type,attr"`
	BackingStore *chain `xml:"backingStore"`
}

func decodeChains(text []byte) ([]chain, error) {
	var d struct {
		Disks []chain `xml:"devices>disk"`
	}
	err := newDecoder(text).Decode(&d)
	return d.Disks, err
}

// countDisks counts as libvirt does: a disk once however many NVMe controllers its
// chain has, but each of its vDPA images.
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
	toPlace := 0
	for _, h := range d.Devices.Hostdevs {
		if h.SubsysPCI == nil && h.SubsysMDev == nil {
			continue
		}
		def.VFIO++
		if h.SubsysPCI != nil && unplaced(h.Address) {
			toPlace++
		}
	}
	for _, i := range d.Devices.Interfaces {
		switch {
		case i.Source == nil:
		case i.Source.VDPA != nil:
			def.VDPAInterfaces++
		case i.Source.Hostdev != nil && i.Source.Hostdev.PCI != nil: // a host device in disguise
			def.VFIO++
			if unplaced(i.Address) {
				toPlace++
			}
		}
	}
	def.IOMMU = len(d.Devices.IOMMUs) > 0 || d.Devices.IOMMU != nil
	def.HostBridges = max(hostBridges(d.Devices.Controllers), 1) + toPlace
}

// unplaced reports whether libvirt has yet to choose the address of a device, as it
// does also for one that says no more than type='pci'.
func unplaced(a *libvirtxml.DomainAddress) bool {
	return a == nil || a.PCI != nil && zero(a.PCI.Domain) && zero(a.PCI.Bus) && zero(a.PCI.Slot)
}

func zero(n *uint) bool { return n == nil || *n == 0 }

// hostBridges counts the PCI host bridges of a pSeries guest that the XML has.
func hostBridges(controllers []libvirtxml.DomainController) int {
	n := 0
	for _, c := range controllers {
		if c.PCI != nil && c.Model == "pci-root" {
			n++
		}
	}
	return n
}
