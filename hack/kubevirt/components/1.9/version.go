package main

import (
	goruntime "runtime"

	"k8s.io/apimachinery/pkg/runtime"
	v1 "kubevirt.io/api/core/v1"

	"kubevirt.io/kubevirt/pkg/virt-launcher/virtwrap/converter/types"
	"kubevirt.io/kubevirt/pkg/virt-operator/resource/generate/components"
	"kubevirt.io/kubevirt/pkg/virt-operator/resource/generate/rbac"
)

// This file has the code for one version of KubeVirt. The other files are links to those of 1.7.

const version = "1.9.0"

type (
	converterContext = types.ConverterContext
	efiConfiguration = types.EFIConfiguration
)

// completeContext sets the fields unknown to 1.7.
func completeContext(c *converterContext) {
	c.HypervisorName = v1.KvmHypervisorName
	c.HypervisorDeviceAvailable = true
	c.HostArchitecture = goruntime.GOARCH
}

// newCRDs are the generators unknown to 1.7.
func newCRDs() []crdGenerator {
	return []crdGenerator{
		components.NewPluginCrd,
		components.NewVirtualMachineBackupCrd,
		components.NewVirtualMachineBackupTrackerCrd,
	}
}

// controllerRoles are the roles for a cluster without NetworkAttachmentDefinitions.
func controllerRoles() []runtime.Object { return rbac.GetAllController(namespace, false) }
