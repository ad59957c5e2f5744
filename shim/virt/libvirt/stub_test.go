//go:build !cgo || !libvirt_dlopen

package libvirt

import (
	"errors"
	"testing"

	"github.com/mooring-vm/mooring/shim/virt"
)

func TestOpenOfStub(t *testing.T) {
	if c, err := Open(t.Context(), "test:///default", Options{}); c != nil || !errors.Is(err, virt.ErrUnsupported) {
		t.Errorf("Open = %v, %v, want that %v", c, err, virt.ErrUnsupported)
	}
}
