//go:build cgo && libvirt_dlopen

package libvirt

import (
	"context"
	"fmt"

	"libvirt.org/go/libvirt"
	"libvirt.org/go/libvirtxml"

	"github.com/mooring-vm/mooring/shim/virt"
)

// SetBalloon sets the memory that the balloon leaves to the guest. libvirt's call excludes
// virtio-mem, but the domain's XML includes it.
func (d *domain) SetBalloon(ctx context.Context, bytes uint64) error {
	kib, err := toKiB(bytes)
	if err != nil {
		return fmt.Errorf("domain %s: set the balloon: %w", d.name, err)
	}
	return d.change(
		ctx,
		fmt.Sprintf("leave %d KiB to the guest with the balloon", kib),
		func(handle *libvirt.Domain, impact libvirt.DomainModificationImpact) error {
			def, err := readDefinition(handle, 0)
			if err != nil {
				return err
			}
			memory := def.memory()
			if !memory.Ballooned {
				return fmt.Errorf("the domain has no balloon: %w", virt.ErrUnsupported)
			}
			var virtioMem uint64
			for _, device := range memory.Devices {
				virtioMem += device.Current >> 10
			}
			if virtioMem > kib {
				return fmt.Errorf(
					"virtio-mem holds %d KiB, want at least this much for the balloon", virtioMem,
				)
			}
			return handle.SetMemoryFlags(kib-virtioMem, libvirt.DomainMemoryModFlags(impact))
		},
	)
}

// AttachVirtioMem attaches a virtio-mem device as KubeVirt does, to a domain with maxMemory.
func (d *domain) AttachVirtioMem(ctx context.Context, m virt.MemoryDevice) error {
	target, err := memoryTarget(m)
	if err != nil {
		return fmt.Errorf("domain %s: attach a virtio-mem device: %w", d.name, err)
	}
	target.Block = &libvirtxml.DomainMemorydevTargetBlock{Value: uint(m.Block >> 10), Unit: "KiB"}
	target.Requested = &libvirtxml.DomainMemorydevTargetRequested{
		Value: uint(m.Requested >> 10), Unit: "KiB",
	}
	return d.attachMemory(
		ctx,
		fmt.Sprintf("attach a virtio-mem device of %d KiB to cell %d", m.Size>>10, m.Cell),
		libvirtxml.DomainMemorydev{Model: string(virt.VirtioMem), Target: target},
	)
}

// AttachDIMM plugs a DIMM into a domain with maxMemory.
func (d *domain) AttachDIMM(ctx context.Context, cell int, bytes uint64) error {
	target, err := memoryTarget(virt.MemoryDevice{Cell: cell, Size: bytes})
	if err != nil {
		return fmt.Errorf("domain %s: attach a DIMM: %w", d.name, err)
	}
	return d.attachMemory(
		ctx,
		fmt.Sprintf("attach a DIMM of %d KiB to cell %d", bytes>>10, cell),
		libvirtxml.DomainMemorydev{Model: string(virt.DIMM), Target: target},
	)
}

// memoryTarget returns size and cell of a new device. It checks all amounts of m.
func memoryTarget(m virt.MemoryDevice) (*libvirtxml.DomainMemorydevTarget, error) {
	for _, bytes := range []uint64{m.Size, m.Block, m.Requested} {
		if _, err := toKiB(bytes); err != nil {
			return nil, err
		}
	}
	return &libvirtxml.DomainMemorydevTarget{
		Size: &libvirtxml.DomainMemorydevTargetSize{Value: uint(m.Size >> 10), Unit: "KiB"},
		Node: &libvirtxml.DomainMemorydevTargetNode{Value: uint(m.Cell)},
	}, nil
}

// attachMemory attaches a memory device to the running domain and to its definition.
func (d *domain) attachMemory(
	ctx context.Context, action string, device libvirtxml.DomainMemorydev,
) error {
	return d.change(
		ctx,
		action,
		func(handle *libvirt.Domain, impact libvirt.DomainModificationImpact) error {
			def, err := readDefinition(handle, 0)
			if err == nil && def.MaximumMemory == nil {
				err = fmt.Errorf("the domain has no maxMemory: %w", virt.ErrUnsupported)
			}
			if err != nil {
				return err
			}
			return withXML(
				device, libvirt.DomainDeviceModifyFlags(impact), handle.AttachDeviceFlags,
			)
		},
	)
}

// RequestMemory updates the device's XML with the new requested size. It takes two calls: libvirt
// finds the live device by its alias, and the device in the definition has no alias.
func (d *domain) RequestMemory(ctx context.Context, alias string, bytes uint64) error {
	kib, err := toKiB(bytes)
	if err != nil {
		return fmt.Errorf("domain %s: request memory of %s: %w", d.name, alias, err)
	}
	return d.changeDevice(
		ctx,
		fmt.Sprintf("request %d KiB of memory device %s", kib, alias),
		alias,
		func(
			handle *libvirt.Domain,
			device libvirtxml.DomainMemorydev,
			impact libvirt.DomainDeviceModifyFlags,
		) error {
			if device.Target.Requested == nil {
				return fmt.Errorf(
					"a %s has no requested size: %w", device.Model, virt.ErrUnsupported,
				)
			}
			device.Target.Requested = &libvirtxml.DomainMemorydevTargetRequested{
				Value: uint(kib),
				Unit:  "KiB",
			}
			return withXML(device, impact, handle.UpdateDeviceFlags)
		},
	)
}

// DetachDIMM asks the guest and does not wait for its answer. The definition loses the DIMM at
// once.
func (d *domain) DetachDIMM(ctx context.Context, alias string) error {
	return d.changeDevice(
		ctx,
		"detach memory device "+alias,
		alias,
		func(
			handle *libvirt.Domain,
			device libvirtxml.DomainMemorydev,
			impact libvirt.DomainDeviceModifyFlags,
		) error {
			if impact == libvirt.DOMAIN_DEVICE_MODIFY_LIVE {
				return handle.DetachDeviceAlias(alias, impact)
			}
			return withXML(device, impact, handle.DetachDeviceFlags)
		},
	)
}

func withXML(
	device libvirtxml.DomainMemorydev,
	flags libvirt.DomainDeviceModifyFlags,
	f func(string, libvirt.DomainDeviceModifyFlags) error,
) error {
	text, err := device.Marshal()
	if err != nil {
		return err
	}
	return f(text, flags)
}

// changeDevice calls f for a memory device of the running domain, and then for its counterpart in
// the definition if there is one.
func (d *domain) changeDevice(
	ctx context.Context,
	action, alias string,
	f func(*libvirt.Domain, libvirtxml.DomainMemorydev, libvirt.DomainDeviceModifyFlags) error,
) error {
	return d.change(
		ctx,
		action,
		func(handle *libvirt.Domain, impact libvirt.DomainModificationImpact) error {
			live, err := readDefinition(handle, 0)
			if err != nil {
				return err
			}
			device, err := live.device(alias)
			if err != nil {
				return err
			}
			err = f(handle, device, libvirt.DOMAIN_DEVICE_MODIFY_LIVE)
			if err != nil || impact == libvirt.DOMAIN_AFFECT_LIVE {
				return err
			}
			defined, err := readDefinition(handle, libvirt.DOMAIN_XML_INACTIVE)
			if err != nil {
				return fmt.Errorf("in its definition: %w", classified(err))
			}
			if same, ok := defined.counterpart(device, live); ok {
				err = f(handle, same, libvirt.DOMAIN_DEVICE_MODIFY_CONFIG)
			}
			if err != nil {
				return fmt.Errorf("in its definition: %w", classified(err))
			}
			return nil
		},
	)
}

func readDefinition(handle *libvirt.Domain, flags libvirt.DomainXMLFlags) (definition, error) {
	text, err := handle.GetXMLDesc(flags)
	if err != nil {
		return definition{}, err
	}
	return parseDefinition(text)
}
