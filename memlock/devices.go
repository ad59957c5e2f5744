package memlock

import "github.com/mooring-vm/mooring/api"

// ioAllowance is what libvirt grants beyond the guest's memory for the I/O
// memory of passed-through devices (qemuDomainGetMemLockLimitBytes).
const ioAllowance = 1 << 30

// ForDevices returns what libvirt lets QEMU lock for passed-through devices
// (qemuDomainGetMemLockLimitBytes, unchanged from libvirt 9.10 to 11.3):
//
//	factor × memory + 1 GiB
//
// factor is the number of vDPA and NVMe devices, plus one for all VFIO devices
// together, or one for each of them when the VM has a virtual IOMMU. Without a
// device there are no terms. The error is a product beyond an int64.
func ForDevices(memory Term, d api.Devices) ([]Term, error) {
	if !d.Any() {
		return nil, nil
	}
	pinned, err := memory.Times(factor(d))
	if err != nil {
		return nil, err
	}
	return []Term{pinned, {"libvirt's allowance for device I/O", ioAllowance}}, nil
}

// factor is how many times libvirt counts the guest's memory. It is at least 1
// when there is a device.
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
