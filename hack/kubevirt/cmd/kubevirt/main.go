// Command kubevirt builds the programs of KubeVirt that tests run, or finds them
// in the cache, and prints the folder that holds them. `go test` needs not be
// told: the point is to build ahead of the tests and beyond their time-out.
package main

import (
	"os"

	"github.com/mooring-vm/mooring/hack/kubevirt"
	"github.com/mooring-vm/mooring/hack/module"
)

func main() { os.Exit(module.Main("hack/kubevirt", kubevirt.Build)) }
