package estimate_test

import (
	"testing"

	kubevirtv1 "kubevirt.io/api/core/v1"
)

// TestPasst: since 1.8 a passt binding adds 250 MiB to a launcher, once.
func TestPasst(t *testing.T) {
	for v, want := range map[string]int64{"1.7.4": 0, "1.8.0": 250 << 20, "1.9.0": 250 << 20} {
		in := input(t)
		in.Cluster.Version = version(t, v)
		before := of(t, in).Overhead
		passt := kubevirtv1.Interface{InterfaceBindingMethod: kubevirtv1.InterfaceBindingMethod{
			PasstBinding: &kubevirtv1.InterfacePasstBinding{}}}
		in.VMI.Spec.Domain.Devices.Interfaces = []kubevirtv1.Interface{passt, passt}
		after := of(t, in).Overhead
		if got := after.Value() - before.Value(); got != want {
			t.Errorf("version %s: the binding adds %d bytes, want %d", v, got, want)
		}
	}
}

// TestGate: since 1.9 a gate in beta is on unless it is disabled.
func TestGate(t *testing.T) {
	none, named := kubevirtv1.DeveloperConfiguration{}, []string{"ImageVolume"}
	for _, test := range []struct {
		version   string
		developer *kubevirtv1.DeveloperConfiguration
		container bool // the disk has a container beside the VM's
	}{
		{"1.8.4", nil, true},
		{"1.8.4", &none, true},
		{"1.8.4", &kubevirtv1.DeveloperConfiguration{FeatureGates: named}, false},
		{"1.9.0", nil, false},
		{"1.9.0", &none, false},
		{"1.9.0", &kubevirtv1.DeveloperConfiguration{DisabledFeatureGates: named}, true},
		{"1.9.0", &kubevirtv1.DeveloperConfiguration{
			FeatureGates: named, DisabledFeatureGates: named}, false},
	} {
		in := input(t)
		in.Cluster.Version = version(t, test.version)
		in.Cluster.Configuration.DeveloperConfiguration = test.developer
		plain := of(t, in).Pod.Charge["requests.ephemeral-storage"]
		disk := kubevirtv1.VolumeSource{ContainerDisk: &kubevirtv1.ContainerDiskSource{}}
		in.VMI.Spec.Volumes = []kubevirtv1.Volume{{Name: "disk", VolumeSource: disk}}
		with := of(t, in).Pod.Charge["requests.ephemeral-storage"]
		if got := with.Cmp(plain) > 0; got != test.container {
			t.Errorf("version %s, %+v: a container for the disk: %t, want %t", test.version,
				test.developer, got, test.container)
		}
	}
}
