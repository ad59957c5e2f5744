//go:build !cgo || !libvirt_dlopen

package libvirt

import (
	"errors"
	"testing"

	"github.com/mooring-vm/mooring/shim/virt"
	"github.com/mooring-vm/mooring/shim/virt/libvirt/libvirttest"
)

func TestRealLibvirt(t *testing.T) { libvirttest.FailLeftOut(t) }

func TestStubOpen(t *testing.T) {
	c, err := Open(t.Context(), "test:///default", Options{})
	if c != nil || !errors.Is(err, virt.ErrUnsupported) {
		t.Errorf("Open = %v, %v, want %v", c, err, virt.ErrUnsupported)
	}
}
