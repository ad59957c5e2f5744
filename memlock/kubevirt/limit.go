package kubevirt

import (
	"fmt"
	"strings"

	"github.com/mooring-vm/mooring/memlock"
)

// Limit computes the memory lock of a VM's launcher.
//
// It is required for a VM with devices that are passed through (hostDevices, gpus,
// interfaces with sriov), with SEV or SEV-SNP, that is realtime, or that demands it
// with memory.reservedOverhead.memLock, and it is then
//
//	overhead + the guest's memory
//
// with the overhead of [Overhead] and the most memory that the guest may come to have
// ([Memory.LargestGuest]), to the byte. KubeVirt's own lock (virt-handler's
// AdjustResources) has the same terms up to 1.9, with the memory rounded up to 1000
// bytes, and takes requests.memory where that is more than the guest has; on main it is
// infinite. The reason says both where it matters.
//
// With a virtual IOMMU and several devices libvirt wants the guest's memory once for
// each of them. KubeVirt since 1.8.3 and 1.9 adds that on suspicion; Limit does not,
// but its reason says so: only the domain XML tells.
//
// The errors are Overhead's, and a VM without memory, which is named by its fields.
func Limit(vm VM, version Version, ratio Ratio) (memlock.Result, error) {
	terms, _, err := Overhead(vm, version, ratio)
	if err != nil {
		return memlock.Result{}, err
	}
	guest, field, err := vm.Memory.LargestGuest()
	if err != nil {
		return memlock.Result{}, err
	}
	conditions := vm.conditions()
	if len(conditions) == 0 {
		return memlock.Result{Reason: "the VM has no hostDevices, gpus or interfaces with sriov, no launchSecurity.sev or .snp, " +
			"no cpu.realtime, and no memory.reservedOverhead.memLock that is Required"}, nil
	}
	terms = append(terms, memlock.Term{Name: fmt.Sprintf("guest memory (%s)", field), Bytes: guest})
	return memlock.Limited(vm.because(version, conditions), terms...)
}

// liveUpdate is the version from which on LiveUpdate is the default.
var liveUpdate = v(1, 6, 0)

// conditions names what makes a lock required.
func (vm VM) conditions() []string {
	var all []string
	add := func(holds bool, text string) {
		if holds {
			all = append(all, text)
		}
	}
	add(vm.HostDevices > 0, fmt.Sprintf("hostDevices (%d)", vm.HostDevices))
	add(vm.GPUs > 0, fmt.Sprintf("gpus (%d)", vm.GPUs))
	add(vm.SRIOV > 0, fmt.Sprintf("interfaces with sriov (%d)", vm.SRIOV))
	add(vm.SEV, "launchSecurity.sev")
	add(vm.SNP, "launchSecurity.snp")
	add(vm.CPU.Realtime, "cpu.realtime")
	add(vm.Memory.LockRequired, "memory.reservedOverhead.memLock")
	return all
}

// because is the reason of a lock that is required.
func (vm VM) because(version Version, conditions []string) string {
	text := "the VM has " + strings.Join(conditions, ", ")
	if vm.devices() > 1 {
		text += "; with a virtual IOMMU libvirt wants more for several devices, see the limit of the domain XML"
	}
	if m := vm.Memory; m.Request > max(m.Guest, m.MaxGuest) && m.Guest > 0 {
		text += "; KubeVirt's own lock starts from requests.memory, which is more than the guest's"
	}
	if vm.Template && vm.Memory.MaxGuest == 0 && version.Compare(liveUpdate) >= 0 {
		text += "; with the LiveUpdate roll-out strategy, which is the default, KubeVirt enters a maxGuest of 4 x guest: " +
			"set maxGuest, or give the VirtualMachineInstance from the cluster"
	}
	if version == Main() {
		text += "; KubeVirt itself sets no limit any more"
	}
	if unknown := vm.unknown(version); len(unknown) > 0 {
		text += fmt.Sprintf("; KubeVirt %s does not know %s, so it is not in the overhead", version, strings.Join(unknown, " and "))
	}
	return text
}

// unknown names the fields that are set and that the version does not know.
func (vm VM) unknown(version Version) []string {
	row, err := releaseOf(version)
	if err != nil {
		return nil
	}
	var all []string
	if vm.SNP && !row.has(countsSNP) {
		all = append(all, "launchSecurity.snp")
	}
	if (vm.Memory.LockRequired || vm.Memory.AddedOverhead > 0) && !row.has(countsReserved) {
		all = append(all, "memory.reservedOverhead")
	}
	return all
}
