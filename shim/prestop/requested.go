package prestop

import (
	"fmt"

	"github.com/mooring-vm/mooring/shim/internal/touch"
)

// Asked reports whether the pod asks for the end of its VM, and has no answer yet. It
// makes one system call.
func Requested(file string) (bool, error) {
	touched, err := touch.At(file)
	if err != nil {
		return false, fmt.Errorf("look for a request: %w", err)
	}
	return !touched.IsZero(), nil
}
