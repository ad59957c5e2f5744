package estimate

import (
	"encoding/json"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/mooring-vm/mooring/quota/sidecar"
)

// hooksAnnotation holds the list of a VM's hook sidecars.
const hooksAnnotation = "hooks.kubevirt.io/hookSidecars"

// support holds requests and limits of a support container. An empty value means none.
type support struct{ requestCPU, requestMemory, limitCPU, limitMemory string }

// Defaults of KubeVirt's support containers. supportContainerResources overrides them.
func diskSupport() support    { return support{"1m", "1M", "10m", "40M"} }
func copySupport() support    { return support{"10m", "1M", "100m", "40M"} }
func consoleSupport() support { return support{"5m", "35M", "15m", "60M"} }
func fsSupport() support      { return support{"10m", "1M", "100m", "80M"} }

// guaranteed reports whether all containers need requests equal to their limits.
func (r *renderer) guaranteed() bool {
	return r.vmi.IsCPUDedicated() || r.vmi.WantsToHaveQOSGuaranteed()
}

// container sizes a support container.
func (r *renderer) container(kind kubevirtv1.SupportContainerType, s support) corev1.Container {
	of := corev1.ResourceRequirements{Requests: corev1.ResourceList{},
		Limits: corev1.ResourceList{}}
	set(of.Requests, corev1.ResourceCPU, s.requestCPU)
	set(of.Requests, corev1.ResourceMemory, s.requestMemory)
	set(of.Limits, corev1.ResourceCPU, s.limitCPU)
	set(of.Limits, corev1.ResourceMemory, s.limitMemory)
	for _, c := range r.config.SupportContainerResources {
		if c.Type == kind {
			override(of.Requests, c.Resources.Requests)
			override(of.Limits, c.Resources.Limits)
		}
	}
	if r.guaranteed() {
		for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
			if limit, ok := of.Limits[name]; ok {
				of.Requests[name] = limit
			}
		}
	}
	return corev1.Container{Resources: of}
}

func set(list corev1.ResourceList, name corev1.ResourceName, text string) {
	if q, err := resource.ParseQuantity(text); err == nil {
		list[name] = q
	}
}

// override copies CPU and memory amounts other than zero.
func override(list, by corev1.ResourceList) {
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		if q, ok := by[name]; ok && !q.IsZero() {
			list[name] = q
		}
	}
}

// containers returns the containers beside the VM's container.
func (r *renderer) containers() []corev1.Container {
	var all []corev1.Container
	if !r.enabled(imageVolume) {
		all = append(all, slices.Repeat([]corev1.Container{r.disk()}, r.disks())...)
	}
	for _, volume := range r.vmi.Spec.Volumes {
		if r.isFilesystem(volume.Name) {
			all = append(all, r.container(kubevirtv1.VirtioFS, fsSupport()))
		}
	}
	hook := support{}
	if r.guaranteed() {
		hook = support{limitCPU: "200m", limitMemory: "64M"}
	}
	return append(all, slices.Repeat([]corev1.Container{r.container(kubevirtv1.SideCar, hook)},
		r.hookSidecars())...)
}

// initContainers returns the init containers and the guest console's native sidecar.
func (r *renderer) initContainers() []corev1.Container {
	var all []corev1.Container
	if r.logsConsole() {
		console := r.container(kubevirtv1.GuestConsoleLog, consoleSupport())
		console.RestartPolicy = new(corev1.ContainerRestartPolicyAlways)
		all = append(all, console)
	}
	disks := r.disks()
	if r.enabled(imageVolume) && !r.since("1.7.0") {
		return all // KubeVirt 1.6 reads no digests of images
	}
	if disks > 0 && !r.enabled(imageVolume) {
		program := copySupport()
		if r.guaranteed() {
			program.limitCPU = "10m"
		}
		all = append(all, r.container(kubevirtv1.ContainerDisk, program))
	}
	return append(all, slices.Repeat([]corev1.Container{r.disk()}, disks)...)
}

// needsShim reports whether the launcher webhook adds mooring-shim.
func (r *renderer) needsShim() bool {
	if !r.Shim || r.Namespace == nil {
		return false
	}
	request, _ := sidecar.Requested(r.vmi.Annotations, r.Namespace.Annotations)
	return request.Sidecar
}

// shim returns the mooring-shim container, given the launcher container with all defaults.
func shim(launcher corev1.Container) corev1.Container {
	return corev1.Container{
		Resources:     sidecar.Resources(sidecar.Guaranteed(launcher.Resources)),
		RestartPolicy: new(corev1.ContainerRestartPolicyAlways),
	}
}

// disk returns the container of a container disk.
func (r *renderer) disk() corev1.Container {
	c := r.container(kubevirtv1.ContainerDisk, diskSupport())
	set(c.Resources.Requests, corev1.ResourceEphemeralStorage, ephemeralStorage)
	return c
}

// disks returns the number of the VM's images: container disks and a kernel.
func (r *renderer) disks() int {
	n := 0
	for _, volume := range r.vmi.Spec.Volumes {
		if volume.ContainerDisk != nil {
			n++
		}
	}
	if f := r.domain.Firmware; f != nil && f.KernelBoot != nil && f.KernelBoot.Container != nil {
		n++
	}
	return n
}

// isFilesystem reports whether the guest uses the volume as a file system.
func (r *renderer) isFilesystem(volume string) bool {
	return slices.ContainsFunc(r.domain.Devices.Filesystems,
		func(f kubevirtv1.Filesystem) bool { return f.Name == volume })
}

// hookSidecars returns the number of hook sidecars of the VM and of network binding plugins.
func (r *renderer) hookSidecars() int {
	var hooks []json.RawMessage
	if err := json.Unmarshal([]byte(r.vmi.Annotations[hooksAnnotation]), &hooks); err != nil {
		hooks = nil // KubeVirt creates no launcher for it
	}
	n := len(hooks)
	for _, plugin := range r.bindings() {
		if plugin.SidecarImage != "" {
			n++
		}
	}
	return n
}

func (r *renderer) logsConsole() bool {
	devices := r.domain.Devices
	switch {
	case !isNot(devices.AutoattachSerialConsole, false):
		return false
	case devices.LogSerialConsole != nil:
		return *devices.LogSerialConsole
	}
	return r.config.VirtualMachineOptions == nil ||
		r.config.VirtualMachineOptions.DisableSerialConsoleLog == nil
}
