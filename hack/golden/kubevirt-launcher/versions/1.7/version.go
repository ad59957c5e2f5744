package main

import (
	"kubevirt.io/kubevirt/pkg/network/netbinding"
	"kubevirt.io/kubevirt/pkg/virt-controller/services"
)

// This file has the code for one version of KubeVirt. The other versions link to the other files.

// networkMemory adds the memory of network bindings.
var networkMemory = services.WithNetBindingPluginMemoryCalculator(netbinding.MemoryCalculator{})
