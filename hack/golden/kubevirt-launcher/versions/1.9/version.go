package main

import (
	netresources "kubevirt.io/kubevirt/pkg/network/resources"
	"kubevirt.io/kubevirt/pkg/virt-controller/services"
)

// This file has the code for one version of KubeVirt. The other files are links to those of 1.7.

// networkMemory adds the memory of network bindings.
var networkMemory = services.WithNetMemoryCalculator(netresources.MemoryCalculator{})
