package main

import (
	"k8s.io/apimachinery/pkg/runtime"

	"kubevirt.io/kubevirt/pkg/virt-launcher/virtwrap/converter"
	"kubevirt.io/kubevirt/pkg/virt-operator/resource/generate/rbac"
)

// This file has the code for one version of KubeVirt. The other versions link to the other files.

const version = "1.7.0"

type (
	converterContext = converter.ConverterContext
	efiConfiguration = converter.EFIConfiguration
)

// completeContext sets the fields of newer versions.
func completeContext(*converterContext) {}

// newCRDs are the generators of newer versions.
func newCRDs() []crdGenerator { return nil }

func controllerRoles() []runtime.Object { return rbac.GetAllController(namespace) }
