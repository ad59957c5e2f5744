package estimate

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	kubevirtv1 "kubevirt.io/api/core/v1"
	instancetypev1beta1 "kubevirt.io/api/instancetype/v1beta1"
)

// Expand applies an instance type and a preference to the spec of an instance, in place, as far as
// they affect the launcher's size. Either may be nil. KubeVirt refuses a value set in both the spec
// and the instance type; Expand uses the instance type's. It ignores the preferred topology, which
// does not change the number of vCPUs.
func Expand(spec *kubevirtv1.VirtualMachineInstanceSpec,
	size *instancetypev1beta1.VirtualMachineInstancetypeSpec,
	preference *instancetypev1beta1.VirtualMachinePreferenceSpec,
) {
	if preference != nil && preference.Devices != nil {
		applyAutoattach(&spec.Domain.Devices, preference.Devices)
	}
	addDefaultInterface(spec)
	if size != nil {
		expandCPU(&spec.Domain, size.CPU)
		expandMemory(&spec.Domain, size.Memory)
		expandDevices(&spec.Domain, size)
	}
	if preference != nil {
		applyPreference(spec, preference)
	}
}

func expandCPU(domain *kubevirtv1.DomainSpec, of instancetypev1beta1.CPUInstancetype) {
	if domain.CPU == nil {
		domain.CPU = &kubevirtv1.CPU{}
	}
	cpu := domain.CPU
	cpu.Sockets, cpu.Cores, cpu.Threads = max(1, of.Guest), 1, 1
	if of.DedicatedCPUPlacement != nil {
		cpu.DedicatedCPUPlacement = *of.DedicatedCPUPlacement
	}
	if of.IsolateEmulatorThread != nil {
		cpu.IsolateEmulatorThread = *of.IsolateEmulatorThread
	}
	if of.Realtime != nil {
		cpu.Realtime = of.Realtime.DeepCopy()
	}
}

func expandMemory(domain *kubevirtv1.DomainSpec, of instancetypev1beta1.MemoryInstancetype) {
	if domain.Memory == nil {
		domain.Memory = &kubevirtv1.Memory{}
	}
	domain.Memory.Guest = new(of.Guest.DeepCopy())
	if of.Hugepages != nil {
		domain.Memory.Hugepages = of.Hugepages.DeepCopy()
	}
	if of.OvercommitPercent <= 0 {
		return
	}
	if domain.Resources.Requests == nil {
		domain.Resources.Requests = corev1.ResourceList{}
	}
	// as KubeVirt rounds
	request := int64(float32(of.Guest.Value()) * (1 - float32(of.OvercommitPercent)/100))
	domain.Resources.Requests[corev1.ResourceMemory] = *resource.NewQuantity(request,
		of.Guest.Format)
}

func expandDevices(
	domain *kubevirtv1.DomainSpec, of *instancetypev1beta1.VirtualMachineInstancetypeSpec,
) {
	if len(of.GPUs) > 0 {
		domain.Devices.GPUs = of.GPUs
	}
	if len(of.HostDevices) > 0 {
		domain.Devices.HostDevices = of.HostDevices
	}
	if of.IOThreadsPolicy != nil {
		domain.IOThreadsPolicy = of.IOThreadsPolicy
	}
	if of.IOThreads != nil && of.IOThreads.SupplementalPoolThreadCount != nil {
		domain.IOThreads = of.IOThreads.DeepCopy()
	}
	if of.LaunchSecurity != nil {
		domain.LaunchSecurity = of.LaunchSecurity.DeepCopy()
	}
}

// applyAutoattach applies a preference about automatically attached devices.
func applyAutoattach(devices *kubevirtv1.Devices, of *instancetypev1beta1.DevicePreferences) {
	for into, preferred := range map[**bool]*bool{
		&devices.AutoattachGraphicsDevice: of.PreferredAutoattachGraphicsDevice,
		&devices.AutoattachPodInterface:   of.PreferredAutoattachPodInterface,
		&devices.AutoattachSerialConsole:  of.PreferredAutoattachSerialConsole,
	} {
		if *into == nil {
			*into = preferred
		}
	}
}

func applyPreference(
	spec *kubevirtv1.VirtualMachineInstanceSpec,
	preference *instancetypev1beta1.VirtualMachinePreferenceSpec,
) {
	if architecture := preference.PreferredArchitecture; architecture != nil &&
		spec.Architecture == "" {
		spec.Architecture = *architecture
	}
	if preference.PreferredLaunchSecurity != nil && spec.Domain.LaunchSecurity == nil {
		spec.Domain.LaunchSecurity = preference.PreferredLaunchSecurity.DeepCopy()
	}
	of, devices := preference.Devices, &spec.Domain.Devices
	if of == nil {
		return
	}
	if of.PreferredTPM != nil && devices.TPM == nil {
		devices.TPM = of.PreferredTPM.DeepCopy()
	}
	for i := range devices.Interfaces {
		if devices.Interfaces[i].Model == "" {
			devices.Interfaces[i].Model = of.PreferredInterfaceModel
		}
	}
}
