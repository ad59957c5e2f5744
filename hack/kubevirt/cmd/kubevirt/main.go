// Command kubevirt builds the programs of KubeVirt for tests, or finds them in the cache, and
// prints their directory. Tests build them when they are missing. This command builds them before a
// test's time starts.
package main

import (
	"os"

	"github.com/mooring-vm/mooring/hack/kubevirt"
	"github.com/mooring-vm/mooring/hack/module"
)

func main() { os.Exit(module.Main("hack/kubevirt", kubevirt.Build)) }
