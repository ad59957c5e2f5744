package launcher

import (
	"fmt"
	"math"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/memlock"
	"github.com/mooring-vm/mooring/memlock/kubevirt"
)

const mib = 1 << 20

// lock is what the annotations of a launcher have to say about its memory lock.
type lock struct {
	guest   int64 // bytes, > 0: the VM's memory at its largest
	devices api.Devices
	share   int64 // bytes: what value has to have of ours
}

// lock computes the memory lock of a launcher. It is false where nothing demands one: no
// device, SEV or real time, no reservedOverhead, and no annotation.
//
// The agent computes the limit from the annotations, by [memlock.ForLauncher]. The share
// makes up for what that has less than KubeVirt's own lock of the cluster's version, in whole
// MiB, and it has what is to be lockable beyond the VM's own memory, which VEP 144 adds to either.
func (m *mutation) lock(vm kubevirt.VM, request api.Request) (lock, bool, error) {
	own, err := kubevirt.Limit(vm, m.Cluster.Version, m.Cluster.Ratio)
	if err != nil {
		return lock{}, false, err
	}
	if !own.Required && !m.Reserved.RequiresLock && !memlock.Required(request) {
		return lock{}, false, nil
	}
	l := lock{devices: devices(vm, request.Devices)}
	if l.guest, _, err = vm.Memory.LargestGuest(); err != nil {
		return lock{}, false, err
	}
	l.guest = max(l.guest, int64(request.Size.Memory))
	if request.GuestMemory != nil {
		l.guest = max(l.guest, *request.GuestMemory)
	}
	want, err := m.kubevirtLock(vm, own.Required)
	if err != nil {
		return lock{}, false, err
	}
	least, err := leastOfAgent(l)
	if err != nil {
		return lock{}, false, err
	}
	beyond, err := m.beyond(vm)
	if err != nil {
		return lock{}, false, err
	}
	missing, err := sum(max(0, want-least), mib-1)
	if err != nil {
		return lock{}, false, err
	}
	l.share, err = sum(missing/mib*mib, beyond)
	return l, true, err
}

// devices are those of the VM, and those that the annotations have besides. KubeVirt's API
// has no virtual IOMMU, vDPA or NVMe device.
func devices(vm kubevirt.VM, annotated api.Devices) api.Devices {
	annotated.VFIO = max(annotated.VFIO, min(vm.HostDevices+vm.GPUs+vm.SRIOV, api.MaxDevices))
	return annotated
}

// perDevice is the version from which on KubeVirt counts the guest's memory once for each
// VFIO device, as libvirt does where there is a virtual IOMMU.
const perDevice = "1.8.3"

// kubevirtLock is virt-handler's own lock (AdjustResources), for a VM that it sets one for:
//
//	overhead + memory             up to KubeVirt 1.8.2
//	overhead + devices × memory   newer, with several VFIO devices
//
// memory is the most of what the guest may come to have and of requests.memory, rounded up
// to 1000 bytes. KubeVirt's main branch sets none; the formula of 1.9 is taken then.
func (m *mutation) kubevirtLock(vm kubevirt.VM, its bool) (int64, error) {
	_, overhead, err := kubevirt.Overhead(vm, m.Cluster.Version, m.Cluster.Ratio)
	if err != nil {
		return 0, err
	}
	memory, _, err := vm.Memory.LargestGuest()
	if err != nil {
		return 0, err
	}
	if memory, err = sum(max(memory, vm.Memory.Request), 999); err != nil {
		return 0, err
	}
	memory -= memory % 1000
	since, err := kubevirt.ParseVersion(perDevice)
	if err != nil {
		return 0, err
	}
	n := int64(vm.HostDevices + vm.GPUs + vm.SRIOV)
	if !its || n < 1 || m.Cluster.Version.Compare(since) < 0 {
		n = 1
	}
	all, err := memlock.Term{Name: "guest memory", Bytes: memory}.Times(n)
	if err != nil {
		return 0, err
	}
	return sum(all.Bytes, overhead)
}

// beyond is what is to be lockable beyond the VM's own memory, as far as it is not in the
// overhead already.
func (m *mutation) beyond(vm kubevirt.VM) (int64, error) {
	without := vm
	without.Memory.AddedOverhead = 0
	_, with, err := kubevirt.Overhead(vm, m.Cluster.Version, m.Cluster.Ratio)
	if err != nil {
		return 0, err
	}
	if _, lesser, err := kubevirt.Overhead(without, m.Cluster.Version, m.Cluster.Ratio); err != nil || lesser < with {
		return m.Reserved.Value, err
	}
	return sum(m.Reserved.Value, vm.Memory.AddedOverhead)
}

// leastOfAgent is the least that the agent computes without our share. It knows better what
// the launcher's overhead is, and never takes it for less than that of one vCPU.
func leastOfAgent(l lock) (int64, error) {
	overhead, _, err := kubevirt.Overhead(kubevirt.VM{Memory: kubevirt.Memory{Request: l.guest}}, kubevirt.Main(), kubevirt.Ratio{})
	if err != nil {
		return 0, err
	}
	r, err := memlock.ForLauncher(memlock.Input{
		Request:  api.Request{RequiresLock: new(true), GuestMemory: &l.guest, Devices: l.devices},
		Overhead: overhead,
	})
	return r.Bytes, err
}

// applyLock writes the annotations of a lock: never less than what is there.
func (m *mutation) applyLock(l lock) error {
	a := m.pod.Annotations
	m.set(api.GuestMemoryKey, api.Bytes(l.guest).String())
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

// set writes an annotation where the launcher reads it.
func (m *mutation) set(base, value string) {
	key, _, ok := api.Effective(m.pod.Annotations, base, m.name)
	if !ok {
		key = base
	}
	m.pod.Annotations[key] = value
}

// setPod writes an annotation that concerns the pod as a whole.
func (m *mutation) setPod(base, value string) {
	key, _, ok := api.Effective(m.pod.Annotations, base, "")
	if !ok {
		key = base
	}
	m.pod.Annotations[key] = value
}

// sum adds two numbers that are not negative.
func sum(a, b int64) (int64, error) {
	if a > math.MaxInt64-b {
		return 0, fmt.Errorf("memory lock: %s and %s are more than an int64 holds", api.Bytes(a), api.Bytes(b))
	}
	return a + b, nil
}
