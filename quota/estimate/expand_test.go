package estimate_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"
	kubevirtv1 "kubevirt.io/api/core/v1"
	instancetypev1beta1 "kubevirt.io/api/instancetype/v1beta1"

	"github.com/mooring-vm/mooring/quota/estimate"
)

// TestExpand compares an instance type with the equivalent VM written by hand.
func TestExpand(t *testing.T) {
	written, typed := input(t), input(t)
	yes := true
	gpus := []kubevirtv1.GPU{{Name: "a", DeviceName: "example.com/gpu"}}
	d := &written.VMI.Spec.Domain
	d.CPU = &kubevirtv1.CPU{Sockets: 4, Cores: 1, Threads: 1, DedicatedCPUPlacement: true,
		IsolateEmulatorThread: true}
	d.Memory = &kubevirtv1.Memory{Guest: new(resource.MustParse("4Gi")),
		Hugepages: &kubevirtv1.Hugepages{PageSize: "1Gi"}}
	d.Devices.GPUs = gpus
	d.IOThreadsPolicy = new(kubevirtv1.IOThreadsPolicySupplementalPool)
	d.IOThreads = &kubevirtv1.DiskIOThreads{SupplementalPoolThreadCount: new(uint32(2))}
	d.LaunchSecurity = &kubevirtv1.LaunchSecurity{SNP: &kubevirtv1.SEVSNP{}}
	d.Devices.TPM = &kubevirtv1.TPMDevice{}

	typed.VMI.Spec.Domain = kubevirtv1.DomainSpec{}
	estimate.Expand(&typed.VMI.Spec, &instancetypev1beta1.VirtualMachineInstancetypeSpec{
		CPU: instancetypev1beta1.CPUInstancetype{Guest: 4, DedicatedCPUPlacement: &yes,
			IsolateEmulatorThread: &yes},
		Memory: instancetypev1beta1.MemoryInstancetype{Guest: resource.MustParse("4Gi"),
			Hugepages: &kubevirtv1.Hugepages{PageSize: "1Gi"}},
		GPUs:      gpus,
		IOThreads: d.IOThreads, IOThreadsPolicy: d.IOThreadsPolicy,
	}, &instancetypev1beta1.VirtualMachinePreferenceSpec{
		PreferredLaunchSecurity: &kubevirtv1.LaunchSecurity{SNP: &kubevirtv1.SEVSNP{}},
		Devices: &instancetypev1beta1.DevicePreferences{
			PreferredTPM: &kubevirtv1.TPMDevice{}},
	})
	if diff := cmp.Diff(of(t, written), of(t, typed), equal()); diff != "" {
		t.Errorf("(-written +with an instance type)\n%s", diff)
	}
}

// TestPreferencesYield: the VM's own settings take precedence over its preference.
func TestPreferencesYield(t *testing.T) {
	in := input(t)
	graphics := true
	in.VMI.Spec.Domain.Devices.AutoattachGraphicsDevice = &graphics
	in.VMI.Spec.Domain.Devices.TPM = &kubevirtv1.TPMDevice{Enabled: new(false)}
	in.VMI.Spec.Domain.Devices.Interfaces = []kubevirtv1.Interface{{Name: "a", Model: "virtio"}}
	before := of(t, in)
	estimate.Expand(&in.VMI.Spec, nil, &instancetypev1beta1.VirtualMachinePreferenceSpec{
		Devices: &instancetypev1beta1.DevicePreferences{
			PreferredAutoattachGraphicsDevice: new(false), PreferredTPM: &kubevirtv1.TPMDevice{},
			PreferredInterfaceModel: "e1000e",
		}})
	if diff := cmp.Diff(before, of(t, in), equal()); diff != "" {
		t.Errorf("(-before +after)\n%s", diff)
	}
}
