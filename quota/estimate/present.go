package estimate

import kubevirtv1 "kubevirt.io/api/core/v1"

// AtPresentSize returns a copy of an instance with the size that its guest has now. During a
// hot-plug the spec has the next size. virt-handler sets the present one in the status, at the end
// of the migration that changes it.
func AtPresentSize(vmi *kubevirtv1.VirtualMachineInstance) *kubevirtv1.VirtualMachineInstance {
	out := vmi.DeepCopy()
	domain, now := &out.Spec.Domain, out.Status
	if t := now.CurrentCPUTopology; t != nil && domain.CPU != nil {
		domain.CPU.Sockets, domain.CPU.Cores, domain.CPU.Threads = t.Sockets, t.Cores, t.Threads
	}
	if now.Memory != nil && now.Memory.GuestRequested != nil && domain.Memory != nil {
		domain.Memory.Guest = now.Memory.GuestRequested
	}
	return out
}
