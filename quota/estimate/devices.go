package estimate

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

// Resources of KubeVirt's own device plugins.
const (
	kvmDevice         = corev1.ResourceName("devices.kubevirt.io/kvm")
	tunDevice         = corev1.ResourceName("devices.kubevirt.io/tun")
	vhostNetDevice    = corev1.ResourceName("devices.kubevirt.io/vhost-net")
	vhostVsockDevice  = corev1.ResourceName("devices.kubevirt.io/vhost-vsock")
	sevDevice         = corev1.ResourceName("devices.kubevirt.io/sev")
	tdxDevice         = corev1.ResourceName("devices.kubevirt.io/tdx")
	iommuFDDevice     = corev1.ResourceName("devices.kubevirt.io/iommufd")
	reservationDevice = corev1.ResourceName("devices.kubevirt.io/pr-helper")
)

func one() resource.Quantity { return *resource.NewQuantity(1, resource.DecimalSI) }

// virtualization requests the devices for virtualization and network.
func (r *renderer) virtualization(s sizes) {
	devices := r.domain.Devices
	virtio := slices.ContainsFunc(devices.Interfaces, func(i kubevirtv1.Interface) bool {
		return i.Model == "" || i.Model == kubevirtv1.VirtIO
	})
	fast := !r.developer.UseEmulation
	for name, requested := range map[corev1.ResourceName]bool{
		tunDevice: len(devices.Interfaces) > 0 ||
			isNot(devices.AutoattachPodInterface, false),
		vhostNetDevice:   virtio && fast,
		kvmDevice:        fast,
		vhostVsockDevice: !isNot(devices.AutoattachVSOCK, true),
	} {
		if requested {
			s.fromVM.Limits[name] = one()
		}
	}
}

// devices requests the devices named by the VM, and those of KubeVirt's own plugins.
func (r *renderer) devices(s sizes) {
	for _, name := range append(r.namedDevices(), r.ownDevices()...) {
		if name != "" {
			grow(s.generated.Limits, corev1.ResourceName(name), one())
			grow(s.generated.Requests, corev1.ResourceName(name), one())
		}
	}
}

// namedDevices returns the resource names of the VM's GPUs and host devices.
func (r *renderer) namedDevices() []string {
	var names []string
	for _, gpu := range r.domain.Devices.GPUs {
		if gpu.ClaimRequest == nil {
			names = append(names, gpu.DeviceName)
		}
	}
	for _, device := range r.domain.Devices.HostDevices {
		if device.ClaimRequest == nil {
			names = append(names, device.DeviceName)
		}
	}
	return names
}

// ownDevices returns the resource names of KubeVirt's devices for launch security, reservations of
// disks and VFIO.
func (r *renderer) ownDevices() []string {
	var names []string
	add := func(is bool, name corev1.ResourceName) {
		if is {
			names = append(names, string(name))
		}
	}
	if security := r.domain.LaunchSecurity; security != nil {
		add(security.SEV != nil || security.SNP != nil && r.since("1.7.0"), sevDevice)
		add(security.TDX != nil && r.since("1.9.0"), tdxDevice)
	}
	add(slices.ContainsFunc(r.domain.Devices.Disks, func(d kubevirtv1.Disk) bool {
		return d.LUN != nil && d.LUN.Reservation
	}), reservationDevice)
	add(r.since("1.9.0") && r.enabled(iommuFD), iommuFDDevice) // also without a device to pass
	return names
}

// unknown lists the parts of a launcher's charge missing from the estimate.
func (r *renderer) unknown() []string {
	var all []string
	add := func(is bool, part string) {
		if is {
			all = append(all, part)
		}
	}
	claims := len(r.vmi.Spec.ResourceClaims) > 0
	multus := slices.ContainsFunc(r.vmi.Spec.Networks,
		func(n kubevirtv1.Network) bool { return n.Multus != nil })
	add(multus, "devices of a NetworkAttachmentDefinition")
	add(claims, "devices of resource claims")
	add(r.config.DefaultRuntimeClass != "", "the overhead of RuntimeClass "+
		r.config.DefaultRuntimeClass)
	add(r.domain.CPU.IsolateEmulatorThread && r.enabled(alignCPUs),
		"a CPU for an even number of CPUs")
	add(r.hotplugged(), "the pod with hot-plugged disks")
	return all
}

func (r *renderer) hotplugged() bool {
	return slices.ContainsFunc(r.vmi.Spec.Volumes, func(v kubevirtv1.Volume) bool {
		return v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.Hotpluggable ||
			v.DataVolume != nil && v.DataVolume.Hotpluggable
	})
}

// gate is a feature gate of KubeVirt.
type gate struct {
	name string
	beta bool // its stage in 1.9
}

var (
	imageVolume = gate{name: "ImageVolume", beta: true}
	alignCPUs   = gate{name: "AlignCPUs"}
	iommuFD     = gate{name: "IOMMUFD"}
)

// enabled is KubeVirt's rule: a gate can be enabled or disabled by name, and since 1.9 a gate in
// beta is enabled by default.
func (r *renderer) enabled(g gate) bool {
	switch {
	case slices.Contains(r.developer.FeatureGates, g.name):
		return true
	case slices.Contains(r.developer.DisabledFeatureGates, g.name):
		return false
	}
	return g.beta && r.since("1.9.0")
}
