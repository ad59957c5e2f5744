package main

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	v1 "kubevirt.io/api/core/v1"

	ephemeraldisk "kubevirt.io/kubevirt/pkg/ephemeral-disk"
	cmdv1 "kubevirt.io/kubevirt/pkg/handler-launcher-com/cmd/v1"
	"kubevirt.io/kubevirt/pkg/os/disk"
	"kubevirt.io/kubevirt/pkg/virt-api/webhooks/mutating-webhook/mutators"
	virtconfig "kubevirt.io/kubevirt/pkg/virt-config"
	"kubevirt.io/kubevirt/pkg/virt-launcher/virtwrap/api"
	"kubevirt.io/kubevirt/pkg/virt-launcher/virtwrap/converter"
	"kubevirt.io/kubevirt/pkg/virt-launcher/virtwrap/converter/arch"
	"kubevirt.io/kubevirt/pkg/virt-launcher/virtwrap/device"
)

// convert follows virt-api's webhook and virt-launcher's SyncVMI, up to the definition.
func convert(r request) (*api.DomainSpec, error) {
	config, err := clusterConfig(r.LiveUpdate)
	if err != nil {
		return nil, err
	}
	if err := mutators.ApplyNewVMIMutations(r.VMI, config); err != nil {
		return nil, err
	}
	c, err := newContext(r)
	if err != nil {
		return nil, err
	}
	domain := &api.Domain{}
	if err := converter.Convert_v1_VirtualMachineInstance_To_api_Domain(r.VMI, domain, c); err != nil {
		return nil, err
	}
	domain.Spec.Type = "kvm" // on any machine
	if r.Emulated {
		domain.Spec.Type = "qemu"
	}
	api.NewDefaulter(c.Architecture.GetArchitecture()).SetObjectDefaults_Domain(domain)
	return &domain.Spec, nil
}

// clusterConfig is the configuration of a cluster with KubeVirt's defaults.
func clusterConfig(liveUpdate bool) (*virtconfig.ClusterConfig, error) {
	rollout := v1.VMRolloutStrategyStage
	if liveUpdate {
		rollout = v1.VMRolloutStrategyLiveUpdate
	}
	kubevirt := &v1.KubeVirt{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "kubevirt", ResourceVersion: "1"}}
	kubevirt.Spec.Configuration.VMRolloutStrategy = &rollout
	kubevirt.Status.Phase = v1.KubeVirtPhaseDeployed
	kubevirt.Status.DefaultArchitecture = "amd64"
	indexers := cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}
	informer := cache.NewSharedIndexInformer(&cache.ListWatch{}, &v1.KubeVirt{}, 0, indexers)
	if err := informer.GetStore().Add(kubevirt); err != nil {
		return nil, err
	}
	crds := cache.NewSharedIndexInformer(&cache.ListWatch{}, &v1.KubeVirt{}, 0, indexers)
	return virtconfig.NewClusterConfig(crds, informer, namespace)
}

// newContext follows generateConverterContext, with given data of pod and node.
func newContext(r request) (*converterContext, error) {
	devices := r.VMI.Spec.Domain.Devices
	c := &converterContext{
		Architecture:          arch.NewConverter(r.VMI.Spec.Architecture),
		VirtualMachine:        r.VMI,
		AllowEmulation:        true,
		CPUSet:                r.CPUSet,
		Topology:              topology(r.CPUSet),
		UseVirtioTransitional: devices.UseVirtioTransitional != nil && *devices.UseVirtioTransitional,
		PermanentVolumes:      map[string]v1.VolumeStatus{},
		EphemeraldiskCreator:  ephemeraldisk.NewEphemeralDiskCreator("/var/run/kubevirt-ephemeral-disks"),
		FreePageReporting:     !r.VMI.IsHighPerformanceVMI(),
		SerialConsoleLog:      true,
		MemBalloonStatsPeriod: 10,
		SMBios:                &cmdv1.SMBios{Manufacturer: "KubeVirt", Product: "None", Family: "KubeVirt", Version: version},
		DisksInfo:             map[string]*disk.DiskInfo{},

		DomainAttachmentByInterfaceName: map[string]string{},
		UseLaunchSecuritySEV:            r.VMI.Spec.Domain.LaunchSecurity != nil,
	}
	completeContext(c)
	if r.VMI.IsBootloaderEFI() {
		secure := r.VMI.Spec.Domain.Firmware.Bootloader.EFI.SecureBoot
		c.EFIConfiguration = &efiConfiguration{
			EFICode: "/usr/share/OVMF/OVMF_CODE.fd", EFIVars: "/usr/share/OVMF/OVMF_VARS.fd",
			SecureLoader: secure == nil || *secure,
		}
	}
	for _, volume := range r.VMI.Spec.Volumes {
		c.DisksInfo[volume.Name] = &disk.DiskInfo{Format: "raw"}
	}
	for _, network := range devices.Interfaces {
		c.DomainAttachmentByInterfaceName[network.Name] = string(v1.Tap)
	}
	var err error
	c.GenericHostDevices, err = hostDevices(r)
	return c, err
}

// hostDevices follows virt-launcher's function. That function's package needs libvirt.
func hostDevices(r request) ([]api.HostDevice, error) {
	var all []api.HostDevice
	for i, address := range r.HostDevices {
		source, err := device.NewPciAddressField(address)
		if err != nil {
			return nil, err
		}
		all = append(all, api.HostDevice{
			Alias:  api.NewUserDefinedAlias(fmt.Sprintf("hostdevice-%d", i)),
			Source: api.HostDeviceSource{Address: source}, Type: api.HostDevicePCI, Managed: "no",
		})
	}
	return all, nil
}

// topology is a node with one NUMA cell. Each CPU is a core.
func topology(cpus []int) *cmdv1.Topology {
	cell := &cmdv1.Cell{
		Memory: &cmdv1.Memory{Amount: 64 << 30, Unit: "G"},
		Pages:  []*cmdv1.Pages{{Count: 1 << 10, Unit: "KiB", Size: 2 << 10}},
	}
	for _, id := range slices.Sorted(slices.Values(cpus)) {
		cell.Cpus = append(cell.Cpus, &cmdv1.CPU{Id: uint32(id), Siblings: []uint32{uint32(id)}})
	}
	return &cmdv1.Topology{NumaCells: []*cmdv1.Cell{cell}}
}
