// Package quota tests mooring-controller on a real control plane with the real
// virt-controller: with the rights that its role gives it, and no others.
package quota

import (
	"os"
	"testing"

	kubevirttest "github.com/mooring-vm/mooring/integration/kubevirt"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == serveAs {
		os.Exit(serve(os.Args[2:]))
	}
	// Under -race: a controller that has one ends, which fails the test.
	if err := os.Setenv("GORACE", "halt_on_error=1"); err != nil {
		panic(err)
	}
	os.Exit(kubevirttest.Main(m))
}
