package virttest

import (
	"context"

	"libvirt.org/go/libvirtxml"

	"github.com/mooring-vm/mooring/shim/virt"
)

// XML returns a minimal definition with the memory and the vCPUs.
func (d *Domain) XML(ctx context.Context) (string, error) {
	s, err := d.read(ctx, func(*Reads) {})
	if err != nil {
		return "", err
	}
	definition := libvirtxml.Domain{
		Type: "qemu",
		Name: s.Name,
		UUID: s.UUID,
		OS: &libvirtxml.DomainOS{
			Type: &libvirtxml.DomainOSType{Arch: "x86_64", Machine: "q35", Type: "hvm"},
		},
		VCPU: &libvirtxml.DomainVCPU{
			Value:   uint(s.VCPUs.Maximum),
			Current: uint(s.VCPUs.Plugged),
		},
		Devices: &libvirtxml.DomainDeviceList{},
	}
	total := s.Memory.Boot
	for _, m := range s.Memory.Devices {
		total += m.Size
		definition.Devices.Memorydevs = append(definition.Devices.Memorydevs, deviceXML(m))
	}
	definition.Memory = &libvirtxml.DomainMemory{Value: kibibytes(total), Unit: "KiB"}
	if s.Memory.Maximum > 0 {
		definition.MaximumMemory = &libvirtxml.DomainMaxMemory{
			Value: kibibytes(s.Memory.Maximum),
			Unit:  "KiB",
			Slots: uint(s.Memory.Slots),
		}
	}
	return definition.Marshal()
}

func deviceXML(m virt.MemoryDevice) libvirtxml.DomainMemorydev {
	target := &libvirtxml.DomainMemorydevTarget{Size: sizeXML(m.Size)}
	if m.Model == virt.VirtioMem {
		target.Block = &libvirtxml.DomainMemorydevTargetBlock{
			Value: kibibytes(m.Block),
			Unit:  "KiB",
		}
		target.Requested = &libvirtxml.DomainMemorydevTargetRequested{
			Value: kibibytes(m.Requested),
			Unit:  "KiB",
		}
	}
	return libvirtxml.DomainMemorydev{
		Model:  string(m.Model),
		Target: target,
		Alias:  &libvirtxml.DomainAlias{Name: m.Alias},
	}
}

func sizeXML(bytes uint64) *libvirtxml.DomainMemorydevTargetSize {
	return &libvirtxml.DomainMemorydevTargetSize{Value: kibibytes(bytes), Unit: "KiB"}
}

func kibibytes(bytes uint64) uint { return uint(bytes >> 10) }
