package kubevirt

import (
	"fmt"
	"strings"

	"github.com/mooring-vm/mooring/memlock"
)

// Limit computes the memory lock of a VM's launcher.
//
// It is [Bound], so that virt-handler's limit fits for every process. It is required for a VM with
// passed-through devices (hostDevices, gpus, interfaces with sriov), with SEV or SEV-SNP, with
// realtime, or with a request in memory.reservedOverhead.memLock. On main KubeVirt sets an infinite
// limit, and Limit uses the formula of 1.9. It adds memory.reservedOverhead.addedOverhead in
// versions that do not know the field, as Mooring's webhook does.
//
// With a virtual IOMMU and several devices libvirt needs the guest's memory once for each device.
// KubeVirt before 1.8.3 does not add that, and the reason says so.
//
// A network binding plugin and a hook sidecar can give the domain devices. With one of them the
// result is unknown, and the domain XML is the better input.
//
// The errors are Overhead's, and a VM without memory, with the names of the fields.
func Limit(vm VM, version Version, ratio Ratio) (memlock.Result, error) {
	r, err := limit(vm, version, ratio)
	if err == nil {
		r.Unknown = vm.unknown()
	}
	return r, err
}

func limit(vm VM, version Version, ratio Ratio) (memlock.Result, error) {
	terms, err := Bound(vm, version, ratio)
	if err != nil {
		return memlock.Result{}, err
	}
	conditions := vm.conditions()
	if len(conditions) == 0 {
		return memlock.Result{Reason: "the VM has no hostDevices, gpus or interfaces with sriov, " +
			"no launchSecurity.sev or .snp, no cpu.realtime, and no " +
			"memory.reservedOverhead.memLock that is Required"}, nil
	}
	row, err := releaseOf(version)
	if err != nil {
		return memlock.Result{}, err
	}
	if added := vm.Memory.AddedOverhead; added > 0 && !row.has(countsReserved) {
		terms = append(terms, memlock.Term{Name: reservedField + ".addedOverhead", Bytes: added})
	}
	return memlock.Limited(vm.requiredReason(version, conditions), terms...)
}

// reservedField is the field with VEP 144's requests.
const reservedField = "memory.reservedOverhead"

// liveUpdate is the first version with LiveUpdate as the default.
var liveUpdate = v(1, 6, 0)

// conditions lists the VM's fields that require a lock.
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

// unknown lists the parts of the domain that the object does not show.
func (vm VM) unknown() (all []string) {
	if vm.Plugins != "" {
		all = append(all, "network binding plugin "+vm.Plugins+
			" chooses the device of its interface")
	}
	if vm.Hooks != "" {
		all = append(all, UnknownHooks(vm.Hooks))
	}
	return all
}

// UnknownHooks says why hook sidecars make a memory lock unknown. names are their names in quotes,
// separated by commas.
func UnknownHooks(names string) string {
	return "hook sidecar " + names + " can change the domain and its devices"
}

// requiredReason returns the reason of a required lock.
func (vm VM) requiredReason(version Version, conditions []string) string {
	text := "the VM has " + strings.Join(conditions, ", ")
	if vm.devices() > 1 && version.Compare(perDevice) < 0 {
		text += "; with a virtual IOMMU libvirt needs more for several devices, see the limit of " +
			"the domain XML"
	}
	if m := vm.Memory; m.Request > max(m.Guest, m.MaxGuest) && m.Guest > 0 {
		text += "; KubeVirt starts from requests.memory, which is more than the guest's"
	}
	if vm.Template && vm.Memory.MaxGuest == 0 && version.Compare(liveUpdate) >= 0 {
		text += "; with the LiveUpdate roll-out strategy, which is the default, " +
			"KubeVirt enters a maxGuest of 4 x guest: set maxGuest, or give the " +
			"VirtualMachineInstance from the cluster"
	}
	if version == Main() {
		text += "; KubeVirt itself sets no limit any more"
	}
	if unknown := vm.unknownFields(version); len(unknown) > 0 {
		text += fmt.Sprintf("; KubeVirt %s does not know %s, so it is not in the overhead",
			version, strings.Join(unknown, " and "))
	}
	return text
}

// unknownFields lists the VM's fields that the version does not know.
func (vm VM) unknownFields(version Version) []string {
	row, err := releaseOf(version)
	if err != nil {
		return nil
	}
	var all []string
	if vm.SNP && !row.has(countsSNP) {
		all = append(all, "launchSecurity.snp")
	}
	if (vm.Memory.LockRequired || vm.Memory.AddedOverhead > 0) && !row.has(countsReserved) {
		all = append(all, reservedField)
	}
	return all
}
