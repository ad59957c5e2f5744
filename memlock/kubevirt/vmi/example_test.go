package vmi_test

import (
	"fmt"

	"github.com/mooring-vm/mooring/memlock/kubevirt/vmi"
)

func ExampleRead() {
	_, err := vmi.Read([]byte("spec: {domain: {memory: {guest: 4GB}}}"))
	fmt.Println(err)
	_, err = vmi.Read([]byte("spec: {domain: {memory: {gest: 4Gi}}}"))
	fmt.Println(err)
	// Output:
	// spec.domain.memory.guest: "4GB": want a quantity such as 4Gi, 500M or, of CPUs, 2 or 500m
	// spec.domain.memory.gest: unknown field: not in the API of KubeVirt 1.9.0
}
