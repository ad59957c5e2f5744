package launcher

import (
	"fmt"
	"math"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/memlock"
	"github.com/mooring-vm/mooring/memlock/kubevirt"
)

const mib = 1 << 20

// lock holds the memory-lock annotations of a launcher.
type lock struct {
	guest    int64 // bytes, > 0: the VM's largest memory
	overhead int64 // bytes: KubeVirt's own limit without the VMI's largest memory
	devices  api.Devices
	share    int64 // bytes: this webhook's part of the annotation value
}

// lock computes the memory-lock limit of a launcher. It returns false if there is no reason for
// one: no device, SEV, real time, reservedOverhead or annotation.
//
// The agent computes the limit from the annotations with [memlock.ForLauncher]: KubeVirt's own
// limit of the cluster's version, or libvirt's if that is larger. The share adds the lockable
// memory beyond the VM's own memory, which VEP 144 adds in both cases.
//
// If the VMI lacks an input, the client gets a warning, and the limit is only the known part.
func (m *mutation) lock(vm kubevirt.VM, request api.Request) (lock, bool, error) {
	own, err := kubevirt.Limit(vm, m.Cluster.Version, m.Cluster.Ratio)
	if err != nil {
		return lock{}, false, err
	}
	m.warnUnknown(own, request)
	if !own.Required && !m.Reserved.RequiresLock && !memlock.Required(request) {
		return lock{}, false, nil
	}
	guest, _, err := vm.Memory.LargestGuest()
	if err != nil {
		return lock{}, false, err
	}
	l := lock{devices: devices(vm, request.Devices)}
	if l.overhead, err = m.overhead(vm, guest); err != nil {
		return lock{}, false, err
	}
	l.guest = max(guest, int64(request.Size.Memory), m.preparedMemory(request))
	if request.GuestMemory != nil {
		l.guest = max(l.guest, *request.GuestMemory)
	}
	if request.Overhead != nil {
		l.overhead = max(l.overhead, int64(*request.Overhead))
	}
	if l.share, err = sum(m.Reserved.Value, vm.Memory.AddedOverhead); err != nil {
		return lock{}, false, err
	}
	return l, true, l.check(request.Value)
}

// warnUnknown warns about a lock that does not follow from the VMI, unless annotations of the
// author decide it.
func (m *mutation) warnUnknown(own memlock.Result, request api.Request) {
	if own.Verdict() != memlock.VerdictUnknown || request.RequiresLock != nil ||
		request.Devices.Any() {
		return
	}
	m.warn("the memory lock of the VM is %s; give the VM the annotation %s with all its devices, "+
		"such as vfio=1,vdpa=1, or %s: \"false\" if no other device pins memory", own,
		api.DevicesKey, api.RequiresLockKey)
}

// check returns an error if the agent could not compute the limit.
func (l lock) check(value *api.Lockable) error {
	_, err := memlock.ForLauncher(memlock.Input{
		Request: api.Request{RequiresLock: new(true), GuestMemory: &l.guest, Devices: l.devices,
			Value: value},
		Overhead: []memlock.Term{{Name: "launcher's overhead", Bytes: l.overhead}},
	})
	return err
}

// overhead returns the bound of KubeVirt's own limit without this memory of the guest, and without
// the memory of reservedOverhead.
func (m *mutation) overhead(vm kubevirt.VM, guest int64) (int64, error) {
	terms, err := kubevirt.Bound(vm, m.Cluster.Version, m.Cluster.Ratio)
	if err != nil {
		return 0, err
	}
	own, err := memlock.Total(terms)
	if err != nil {
		return 0, err
	}
	reserved, err := m.countedReserve(vm)
	return own - guest - reserved, err
}

// countedReserve returns the part of reservedOverhead that KubeVirt's overhead has. Older versions
// do not know the field.
func (m *mutation) countedReserve(vm kubevirt.VM) (int64, error) {
	without := vm
	without.Memory.AddedOverhead = 0
	_, with, err := kubevirt.Overhead(vm, m.Cluster.Version, m.Cluster.Ratio)
	if err != nil {
		return 0, err
	}
	_, lesser, err := kubevirt.Overhead(without, m.Cluster.Version, m.Cluster.Ratio)
	return min(vm.Memory.AddedOverhead, with-lesser), err
}

// devices returns the VM's devices and the devices from annotations. KubeVirt's API has no virtual
// IOMMU, vDPA or NVMe device.
func devices(vm kubevirt.VM, annotated api.Devices) api.Devices {
	annotated.VFIO = max(annotated.VFIO, min(vm.HostDevices+vm.GPUs+vm.SRIOV, api.MaxDevices))
	return annotated
}

// applyLock writes the annotations of a memory lock and never lowers a value.
func (m *mutation) applyLock(l lock) error {
	a := m.pod.Annotations
	m.set(api.GuestMemoryKey, api.Bytes(l.guest).String())
	m.set(api.OverheadKey, api.Bytes(l.overhead).String())
	if l.devices.Any() {
		m.set(api.DevicesKey, l.devices.String())
	}
	added, noted, err := api.Added(a)
	if err != nil {
		return err
	}
	_, required, _ := api.Effective(a, api.RequiresLockKey, m.name)
	more := max(0, l.share-int64(added))
	if !noted || more > 0 || required != "true" {
		if err := api.AddLockable(a, more); err != nil {
			return err
		}
	}
	if !noted || more > 0 {
		m.setPod(api.AddedKey, api.Bytes(l.share).String())
	}
	return nil
}

// set writes an annotation at the scope that the launcher uses.
func (m *mutation) set(base, value string) {
	key, _, ok := api.Effective(m.pod.Annotations, base, m.name)
	if !ok {
		key = base
	}
	m.pod.Annotations[key] = value
}

// setPod writes an annotation for the whole pod.
func (m *mutation) setPod(base, value string) {
	key, _, ok := api.Effective(m.pod.Annotations, base, "")
	if !ok {
		key = base
	}
	m.pod.Annotations[key] = value
}

// sum adds two non-negative numbers.
func sum(a, b int64) (int64, error) {
	if a > math.MaxInt64-b {
		return 0, fmt.Errorf("memory lock: %s + %s exceed an int64", api.Bytes(a), api.Bytes(b))
	}
	return a + b, nil
}
