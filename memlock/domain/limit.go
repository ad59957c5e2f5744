package domain

import (
	"fmt"
	"strings"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/memlock"
)

// Limit returns the limit that libvirt sets for the domain's QEMU process. If it is not Required,
// QEMU inherits the limit of libvirt's daemon. In libvirt's order:
//
//	hard_limit             this limit, for all of QEMU
//	locked                 unlimited
//	pSeries with KVM       see forPSeries
//	passed-through devices factor × memory + 1 GiB, see [memlock.ForDevices]
//	none of them           not set
//
// A device with iommufd (libvirt 12.2 and newer) counts like one with VFIO, which is never too
// little as long as the kernel counts per process. Real time, USB and SCSI host devices and
// vhost-user do not count.
//
// A device that the XML does not show makes the result unknown, and so do SEV and an iommufd that
// libvirt does not open, unless <hard_limit> or <locked/> decides.
//
// The source is qemuDomainGetMemLockLimitBytes of libvirt, the same from 9.10 to 11.3. The errors
// are a domain of another hypervisor, and a limit beyond an int64.
func (def Definition) Limit() (memlock.Result, error) {
	if err := checkType(def.Type); err != nil {
		return memlock.Result{}, err
	}
	switch {
	case def.HardLimit != nil:
		return def.hardLimit(), nil
	case def.Locked:
		return memlock.Infinite("<locked/> is set in <memoryBacking>, " +
			"and libvirt cannot know how much QEMU needs for itself"), nil
	}
	r, err := def.forHardware()
	if err == nil && !r.Unlimited {
		r.Unknown = def.unknown()
	}
	return r, err
}

// forHardware returns libvirt's limit by devices and architecture.
func (def Definition) forHardware() (memlock.Result, error) {
	if def.KVM && isPPC64(def.Arch) {
		return def.forPSeries()
	}
	devices := def.devices()
	if !devices.Any() {
		return memlock.Result{
			Reason: "no device pins the VM's memory, and neither <locked/> nor <hard_limit> is set",
		}, nil
	}
	terms, err := memlock.ForDevices(def.memory(), devices)
	if err != nil {
		return memlock.Result{}, err
	}
	return limited("devices pin the VM's memory ("+devices.String()+")", terms...)
}

// Full returns the definition of the domain with all the memory that can be plugged in:
// <maxMemory>.
func (def Definition) Full() Definition {
	def.Memory = max(def.Memory, def.MaxMemory)
	return def
}

// checkType returns an error for a domain that QEMU does not run.
func checkType(name string) error {
	switch name {
	case "", "kvm", "qemu", "hvf", "nvmm":
		return nil
	}
	return fmt.Errorf("domain type: %s: want kvm, qemu, hvf or nvmm: only libvirt's QEMU driver "+
		"limits locked memory", api.Quote(name))
}

func (def Definition) hardLimit() memlock.Result {
	if *def.HardLimit == 0 {
		return memlock.Result{Reason: "<hard_limit> in <memtune> is 0, with which libvirt " +
			"sets none"}
	}
	// The error is nil: Parse takes only hard limits below unlimitedKiB, which fit an int64 in bytes.
	r, _ := limited("<hard_limit> in <memtune> is set, and libvirt prefers it to all else",
		memlock.Term{Name: "hard_limit", Bytes: int64(*def.HardLimit) * KiB})
	return r
}

// limited returns a finite limit. From libvirt's value for "no limit" on it returns an infinite
// one, as libvirt does (virProcessSetMaxMemLock).
func limited(reason string, terms ...memlock.Term) (memlock.Result, error) {
	r, err := memlock.Limited(reason, terms...)
	if err == nil && r.Bytes >= unlimitedKiB {
		return memlock.Infinite(fmt.Sprintf("%s, and %s is more than libvirt sets", reason,
			api.Bytes(r.Bytes))), nil
	}
	return r, err
}

func (def Definition) memory() memlock.Term {
	return memlock.Term{Name: "memory", Bytes: int64(def.Memory) * KiB}
}

func (def Definition) devices() api.Devices {
	return api.Devices{VFIO: def.VFIO, VDPA: def.VDPAInterfaces + def.VDPADisks, NVMe: def.NVMe,
		IOMMU: def.IOMMU}
}

func isPPC64(arch string) bool { return strings.HasPrefix(arch, "ppc64") }
