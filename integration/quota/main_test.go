// Package quota tests mooring-controller on a real control plane with the real virt-controller. The
// controller runs with the rights of its role only.
package quota

import (
	"os"
	"testing"

	"github.com/mooring-vm/mooring/integration/controllerprogram"
	kubevirttest "github.com/mooring-vm/mooring/integration/kubevirt"
)

func TestMain(m *testing.M) {
	controllerprogram.Main()
	// With -race, a data race ends the controller, and the test fails.
	if err := os.Setenv("GORACE", "halt_on_error=1"); err != nil {
		panic(err)
	}
	os.Exit(kubevirttest.Main(m))
}
