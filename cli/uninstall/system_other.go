//go:build !linux

package uninstall

import (
	"context"
	"errors"
)

// Linux is the [System] of a host that is no Linux node: nothing can be removed from it.
type Linux struct{}

// Unmount implements [System].
func (Linux) Unmount(string) error { return errors.ErrUnsupported }

// MountSource implements [System].
func (Linux) MountSource(string) (string, error) { return "", errors.ErrUnsupported }

// Systemctl implements [System].
func (Linux) Systemctl(context.Context, ...string) error { return errors.ErrUnsupported }
