package domain

import (
	"errors"
	"fmt"

	"libvirt.org/go/libvirtxml"
)

// libvirt rounds sizes up to these steps when the domain starts, in KiB
// (qemuDomainGetMemorySizeAlignment, qemuDomainGetMemoryModuleSizeAlignment).
const (
	memoryStep = 1 << 10
	deviceStep = 2 << 10
	ppc64Step  = 256 << 10
)

// sizes returns the domain's memory and maximum memory in KiB, rounded up as at its start
// (virDomainDefPostParseMemory, qemuDomainAlignMemorySizes).
//
// <memory> includes the memory devices. NUMA cells, if there are any, replace <memory> as the
// initial memory.
func sizes(d *libvirtxml.Domain, ppc64 bool) (memory, most uint64, err error) {
	devices, rounded, err := memoryDevices(d, ppc64)
	if err != nil {
		return 0, 0, err
	}
	initial, err := numaMemory(d, ppc64)
	if err == nil && initial == 0 {
		initial, err = withoutDevices(d, devices, step(ppc64, memoryStep))
	}
	if err != nil {
		return 0, 0, err
	}
	if memory, err = add("memory", initial, rounded); err != nil || d.MaximumMemory == nil {
		return memory, 0, err
	}
	most, err = Kibibytes("maxMemory", uint64(d.MaximumMemory.Value), d.MaximumMemory.Unit)
	if err != nil {
		return 0, 0, err
	}
	most = roundUp(most, step(ppc64, memoryStep))
	if most > 0 && most < memory {
		return 0, 0, fmt.Errorf("maxMemory: %d KiB: want at least the domain's memory, which is "+
			"%d KiB with its memory devices",
			most, memory)
	}
	return memory, most, nil
}

func step(ppc64 bool, otherwise uint64) uint64 {
	if ppc64 {
		return ppc64Step
	}
	return otherwise
}

// numaMemory returns the sum of the NUMA cells.
func numaMemory(d *libvirtxml.Domain, ppc64 bool) (total uint64, err error) {
	if d.CPU == nil || d.CPU.Numa == nil {
		return 0, nil
	}
	for i, cell := range d.CPU.Numa.Cell {
		element := fmt.Sprintf("cpu/numa/cell[%d] memory", i)
		size, err := Kibibytes(element, uint64(cell.Memory), cell.Unit)
		if err != nil {
			return 0, err
		}
		if total, err = add(element, total, roundUp(size, step(ppc64, memoryStep))); err != nil {
			return 0, err
		}
	}
	return total, nil
}

// withoutDevices returns <memory> without the memory devices, rounded up.
func withoutDevices(d *libvirtxml.Domain, devices, step uint64) (uint64, error) {
	if d.Memory == nil {
		return 0, errors.New("memory: there is none: want <memory>, or memory in <cpu><numa><cell>")
	}
	memory, err := Kibibytes("memory", uint64(d.Memory.Value), d.Memory.Unit)
	if err != nil {
		return 0, err
	}
	if memory <= devices {
		return 0, fmt.Errorf("memory: %d KiB: want more than the memory devices have, which is "+
			"%d KiB: it includes them",
			memory, devices)
	}
	return roundUp(memory-devices, step), nil
}

// memoryDevices returns the sum of the memory devices as written, and rounded. A virtio-mem device
// counts with its full <size>, not with <requested>.
func memoryDevices(d *libvirtxml.Domain, ppc64 bool) (written, rounded uint64, err error) {
	if d.Devices == nil {
		return 0, 0, nil
	}
	for i := range d.Devices.Memorydevs {
		element := fmt.Sprintf("devices/memory[%d] target/size", i)
		size, whole, err := memoryDevice(element, &d.Devices.Memorydevs[i], ppc64)
		if err != nil {
			return 0, 0, err
		}
		if written, err = add(element, written, size); err != nil {
			return 0, 0, err
		}
		if rounded, err = add(element, rounded, whole); err != nil {
			return 0, 0, err
		}
	}
	return written, rounded, nil
}

func memoryDevice(
	element string, m *libvirtxml.DomainMemorydev, ppc64 bool,
) (written, rounded uint64, err error) {
	if m.Target == nil || m.Target.Size == nil {
		return 0, 0, fmt.Errorf("%s: there is none: want the memory device's size", element)
	}
	written, err = Kibibytes(element, uint64(m.Target.Size.Value), m.Target.Size.Unit)
	if err != nil {
		return 0, 0, err
	}
	if ppc64 && m.Model == "nvdimm" {
		rounded, err = nvdimm(element, written, m.Target.Label)
		return written, rounded, err
	}
	return written, roundUp(written, step(ppc64, deviceStep)), nil
}

// nvdimm rounds an NVDIMM of a pSeries guest down to whole steps beside its label. The rest would
// be beyond the end of the backing file (qemuDomainNVDimmAlignSizePseries).
func nvdimm(
	element string, size uint64, label *libvirtxml.DomainMemorydevTargetLabel,
) (uint64, error) {
	var labelSize uint64
	if label != nil && label.Size != nil {
		var err error
		if labelSize, err = Kibibytes(element+" label/size", uint64(label.Size.Value),
			label.Size.Unit); err != nil {
			return 0, err
		}
	}
	if size < labelSize+ppc64Step {
		return 0, fmt.Errorf("%s: %d KiB: want at least 256 MiB beside the label of %d KiB",
			element, size, labelSize)
	}
	return (size-labelSize)/ppc64Step*ppc64Step + labelSize, nil
}
