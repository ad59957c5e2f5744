//go:build !linux

package poddir

import "errors"

// CheckMount fails: pod directories exist on Linux only.
func CheckMount(string) error { return errors.ErrUnsupported }
