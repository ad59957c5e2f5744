//go:build !cgo || !libvirt_dlopen

package libvirt

import (
	"context"
	"fmt"

	"github.com/mooring-vm/mooring/shim/virt"
)

// Open returns an error: this build has no libvirt.
func Open(_ context.Context, uri string, _ Options) (virt.Connection, error) {
	return nil, fmt.Errorf(
		"connect to libvirt at %q: %w: built without cgo or without the tag libvirt_dlopen", uri,
		virt.ErrUnsupported,
	)
}

// StartEvents does nothing: this build has no libvirt.
func StartEvents() error { return nil }
