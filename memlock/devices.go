package memlock

import (
	"math"

	"github.com/mooring-vm/mooring/api"
)

// ioAllowance is the memory that libvirt grants beyond the guest's for the I/O of passed-through
// devices (qemuDomainGetMemLockLimitBytes).
const ioAllowance = 1 << 30

// memoryStep is the unit to which libvirt rounds the guest's memory up when the VM starts
// (qemuDomainAlignMemorySizes).
const memoryStep = 1 << 20

// ForDevices returns libvirt's limit for QEMU with passed-through devices
// (qemuDomainGetMemLockLimitBytes, unchanged from libvirt 9.10 to 11.3):
//
//	factor × memory + 1 GiB
//
// factor is the number of vDPA and NVMe devices, plus one for all VFIO devices together. With a
// virtual IOMMU each VFIO device counts. The memory is rounded up to a MiB. Without devices there
// are no terms. The error is a product beyond an int64.
func ForDevices(memory Term, d api.Devices) ([]Term, error) {
	if !d.Any() {
		return nil, nil
	}
	pinned, err := memory.roundedUp(memoryStep).Times(factor(d))
	if err != nil {
		return nil, err
	}
	return []Term{pinned, {"libvirt's allowance for device I/O", ioAllowance}}, nil
}

// factor returns how many times libvirt counts the guest's memory. d has at least one device.
func factor(d api.Devices) int64 {
	n := int64(d.VDPA) + int64(d.NVMe)
	switch {
	case d.VFIO > 0 && d.IOMMU:
		n += int64(d.VFIO)
	case d.VFIO > 0:
		n++
	}
	return n
}

// roundedUp returns the term, rounded up to whole steps. A term within a step of the largest int64 stays
// unchanged.
func (t Term) roundedUp(step int64) Term {
	if rest := t.Bytes % step; rest > 0 && t.Bytes <= math.MaxInt64-step {
		t.Bytes += step - rest
	}
	return t
}
