//go:build !linux

package nodeconfig

import (
	"context"
	"errors"
)

// Chroot returns a [Runner] that always fails: nodes run Linux.
func Chroot(string) Runner {
	return func(context.Context, string, ...string) (string, error) {
		return "", errors.ErrUnsupported
	}
}
