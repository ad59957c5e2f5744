// Command kubevirt contains several programs of KubeVirt in one binary, because they share most
// code. Its own name selects the program.
package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"kubevirt.io/client-go/log"

	"kubevirt.io/kubevirt/pkg/service"
	api "kubevirt.io/kubevirt/pkg/virt-api"
	controller "kubevirt.io/kubevirt/pkg/virt-controller/watch"
)

// programs maps the names that hack/kubevirt links to this binary to functions.
func programs() map[string]func() error {
	return map[string]func() error{
		"virt-api":        virtAPI,
		"virt-controller": virtController,
		"launcher":        launcher,
		"manifests":       manifests,
	}
}

func virtController() error {
	controller.Execute()
	return nil
}

func virtAPI() error {
	log.InitializeLogging("virt-api")
	app := api.NewVirtApi()
	service.Setup(app)
	app.Execute()
	return nil
}

func main() {
	name := filepath.Base(os.Args[0])
	all := programs()
	run := all[name]
	if run == nil {
		fmt.Fprintf(os.Stderr, "called as %q: want one of %s\n", name, strings.Join(slices.Sorted(maps.Keys(all)), ", "))
		os.Exit(2)
	}
	if err := run(); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		os.Exit(1)
	}
}
