// Command kube builds the control plane of the tests, or finds it in the cache, and prints the
// directory of its programs. Tests build it themselves when it is missing. This command builds it
// before a test's time starts.
package main

import (
	"os"

	"github.com/mooring-vm/mooring/hack/kube"
	"github.com/mooring-vm/mooring/hack/module"
)

func main() { os.Exit(module.Main("hack/kube", kube.Build)) }
