package target

import (
	"encoding/xml"
	"fmt"
	"strings"

	"libvirt.org/go/libvirtxml"

	"github.com/mooring-vm/mooring/memlock/kubevirt"
)

// Formula is KubeVirt's formula for the overhead of a VM, from the VM's domain XML.
type Formula struct {
	Version kubevirt.Version
	Ratio   kubevirt.Ratio

	// Guaranteed is set if the VM's requests of memory and CPU equal its limits.
	Guaranteed bool

	// Extra is a further overhead in bytes at any size. It covers parts missing from the domain
	// XML, such as exec probes. The ratio does not apply to it.
	Extra int64
}

// Of returns the overhead of the VM with this domain XML. It takes the guest's memory as the VM's
// memory request, which counts the most page tables.
//
// Of returns an error if Check does, or for invalid XML. The overhead returns the errors of
// [kubevirt.Overhead].
func (f Formula) Of(domain string) (Overhead, error) {
	if err := f.Check(); err != nil {
		return nil, err
	}
	vm, err := vmOf(domain)
	if err != nil {
		return nil, fmt.Errorf("overhead by KubeVirt's formula: %w", err)
	}
	vm.Memory.Request = 1
	if f.Guaranteed {
		vm.Memory.Limit = 1
		vm.CPU.RequestMilli, vm.CPU.LimitMilli = 1000, 1000
	}
	formula := KubeVirt(vm, f.Version, f.Ratio)
	return func(guest uint64, vcpus int) (uint64, error) {
		bytes, err := formula(guest, vcpus)
		return bytes + uint64(f.Extra), err // both are at most an int64
	}, nil
}

// Check returns an error if the formula is invalid for every VM.
func (f Formula) Check() error {
	if f.Extra < 0 {
		return fmt.Errorf("overhead by KubeVirt's formula, and %d bytes more: want no less than 0",
			f.Extra)
	}
	_, _, err := kubevirt.Overhead(kubevirt.VM{}, f.Version, f.Ratio)
	return err
}

// vmOf reads the input of the formula except the size. It counts all host devices, because
// KubeVirt's formula does not distinguish them.
func vmOf(text string) (kubevirt.VM, error) {
	var d libvirtxml.Domain
	if err := xml.Unmarshal([]byte(text), &d); err != nil {
		return kubevirt.VM{}, fmt.Errorf("domain XML: %w", err)
	}
	vm := kubevirt.VM{NoGraphics: true}
	if d.OS != nil && d.OS.Type != nil {
		vm.Architecture = architecture(d.OS.Type.Arch)
	}
	if d.CPUTune != nil {
		vm.CPU.Dedicated = len(d.CPUTune.VCPUPin) > 0
	}
	if s := d.LaunchSecurity; s != nil {
		vm.SEV, vm.SNP = s.SEV != nil, s.SEVSNP != nil
	}
	if d.Devices != nil {
		addDevices(&vm, d.Devices)
	}
	return vm, nil
}

func addDevices(vm *kubevirt.VM, d *libvirtxml.DomainDeviceList) {
	vm.NoGraphics = len(d.Graphics) == 0
	if len(d.TPMs) > 0 {
		vm.TPM = kubevirt.EnabledTPM
	}
	vm.HostDevices = len(d.Hostdevs)
	for _, i := range d.Interfaces {
		if i.Source != nil && i.Source.Hostdev != nil {
			vm.SRIOV++
		}
	}
	for _, disk := range d.Disks {
		if disk.Source != nil && disk.Source.File != nil && strings.HasSuffix(disk.Source.File.File,
			metricsDisk) {
			vm.DownwardMetrics = true
		}
	}
}

// metricsDisk ends the name of the image with which KubeVirt shows a guest the metrics of its host.
const metricsDisk = "/vhostmd0"

// architecture returns KubeVirt's name for libvirt's architecture.
func architecture(arch string) string {
	switch arch {
	case "x86_64":
		return "amd64"
	case "aarch64":
		return "arm64"
	}
	return arch
}
