// Command kube builds the control plane that tests run against, or finds it in
// the cache, and prints the folder that holds its programs. `go test` needs not
// be told: the point is to build ahead of the tests and beyond their time-out.
package main

import (
	"os"

	"github.com/mooring-vm/mooring/hack/kube"
	"github.com/mooring-vm/mooring/hack/module"
)

func main() { os.Exit(module.Main("hack/kube", kube.Build)) }
