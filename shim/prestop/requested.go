package prestop

import (
	"fmt"

	"github.com/mooring-vm/mooring/shim/internal/touch"
)

// Requested reports whether the pod has requested the stop of its VM and has no confirmation yet.
// It makes one system call.
func Requested(file string) (bool, error) {
	touched, err := touch.At(file)
	if err != nil {
		return false, fmt.Errorf("read the stop request: %w", err)
	}
	return !touched.IsZero(), nil
}
