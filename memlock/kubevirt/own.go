package kubevirt

import (
	"fmt"

	"github.com/mooring-vm/mooring/memlock"
)

// Process is a process whose memory lock virt-handler sets.
type Process int

// The processes. libvirt's daemon hands its lock to QEMU at the start.
const (
	Daemon Process = iota // virtqemud or libvirtd, before the VM starts
	QEMU                  // the VM process, later
)

// Own returns virt-handler's limit for a process, to the byte, as AdjustResources computes it:
//
//	overhead + memory                            up to 1.8.2
//	overhead + memory + (devices - 1) × memory   newer, with several VFIO devices
//
// Only the first memory is rounded up to 1000 bytes. memory is
//
//	requests.memory                              up to 1.6.3
//	guest for the daemon, and for QEMU           up to 1.7
//	maxGuest or else requests.memory
//	maxGuest, requests.memory or else guest      newer
//
// Defaults of KubeVirt's webhook fill empty fields first. On main the limit is infinite. For a VM
// without a reason for a lock, the result is not required. The errors are those of [Overhead].
func Own(vm VM, version Version, ratio Ratio, p Process) (memlock.Result, error) {
	overhead, _, err := Overhead(vm, version, ratio)
	if err != nil {
		return memlock.Result{}, err
	}
	row, err := releaseOf(version)
	if err != nil {
		return memlock.Result{}, err
	}
	conditions := row.known(vm).conditions()
	if len(conditions) == 0 {
		return memlock.Result{Reason: "KubeVirt " + version.String() + " sets none"}, nil
	}
	reason := vm.requiredReason(version, conditions)
	if version == Main() {
		return memlock.Infinite(reason), nil
	}
	terms, err := withMemory(overhead, row.ownMemory(vm, version, p), vm.counted(version))
	if err != nil {
		return memlock.Result{}, err
	}
	return memlock.Limited(reason, terms...)
}

// Bound returns the terms of an upper bound of [Own] for all processes, also for a VM without a
// reason for a lock. Its memory is the largest of Own's. The errors are those of [Limit].
func Bound(vm VM, version Version, ratio Ratio) ([]memlock.Term, error) {
	overhead, _, err := Overhead(vm, version, ratio)
	if err != nil {
		return nil, err
	}
	bytes, field, err := vm.Memory.LargestGuest()
	if err != nil {
		return nil, err
	}
	row, err := releaseOf(version)
	if err != nil {
		return nil, err
	}
	most := amount{field, bytes}
	for _, p := range []Process{Daemon, QEMU} {
		if own := row.ownMemory(vm, version, p); own.value > most.value {
			most = own
		}
	}
	if vm.Memory.Request > most.value {
		most = amount{"resources.requests.memory", vm.Memory.Request}
	}
	return withMemory(overhead, most, vm.counted(version))
}

// withMemory adds n times the memory to the terms of the overhead. KubeVirt rounds one of them up.
func withMemory(overhead []memlock.Term, memory amount, n int64) ([]memlock.Term, error) {
	guest := memlock.Term{Name: fmt.Sprintf("guest memory (%s)", memory.field), Bytes: memory.value}
	all, err := guest.Times(n)
	if err != nil {
		return nil, err
	}
	terms := overhead
	for _, t := range []memlock.Term{all, {Name: "rounding up to 1000 bytes",
		Bytes: (1000 - memory.value%1000) % 1000}} {
		if t.Bytes > 0 {
			terms = append(terms, t)
		}
	}
	return terms, nil
}

// counted returns how many times KubeVirt counts the guest's memory.
func (vm VM) counted(version Version) int64 {
	if version.Compare(perDevice) < 0 {
		return 1
	}
	return max(1, int64(vm.devices()))
}

// The first versions with a change of virt-handler's memory.
var (
	oneFunction = v(1, 8, 0) // the same memory for both processes
	perDevice   = v(1, 8, 3) // once for each VFIO device, like libvirt with a virtual IOMMU
)

// ownMemory returns the memory of a VM that virt-handler counts for a process.
func (r release) ownMemory(vm VM, version Version, p Process) amount {
	m := r.withDefaults(vm).Memory
	guest := amount{"memory.guest", m.defaultGuest()}
	most := amount{"memory.maxGuest", m.MaxGuest}
	request := amount{"resources.requests.memory", m.Request}
	switch {
	case version.Compare(oneFunction) >= 0:
		return first(most, request, guest)
	case !r.has(noDefaults):
		return request
	case p == Daemon:
		return guest
	}
	return first(most, request)
}

// defaultGuest returns memory.guest, or else the default of KubeVirt's webhook for it.
func (m Memory) defaultGuest() int64 {
	return first(amount{value: m.Guest}, amount{value: m.Request}, amount{value: m.Limit},
		amount{value: m.HugePage}).value
}

// first returns the first amount above 0, or else the last one.
func first(all ...amount) amount {
	for _, a := range all {
		if a.value > 0 {
			return a
		}
	}
	return all[len(all)-1]
}

// known returns the VM without the fields that the release does not know.
func (r release) known(vm VM) VM {
	vm.SNP = vm.SNP && r.has(countsSNP)
	vm.Memory.LockRequired = vm.Memory.LockRequired && r.has(countsReserved)
	return vm
}
