// Package quota tests mooring-controller on a real control plane with the real
// virt-controller: with the rights that its role gives it, and no others.
package quota

import (
	"os"
	"testing"

	"github.com/mooring-vm/mooring/integration/controllerprogram"
	kubevirttest "github.com/mooring-vm/mooring/integration/kubevirt"
)

func TestMain(m *testing.M) {
	controllerprogram.Main()
	// Under -race: a controller that has one ends, which fails the test.
	if err := os.Setenv("GORACE", "halt_on_error=1"); err != nil {
		panic(err)
	}
	os.Exit(kubevirttest.Main(m))
}
