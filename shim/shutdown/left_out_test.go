//go:build !cgo || !libvirt_dlopen

package shutdown_test

import (
	"testing"

	"github.com/mooring-vm/mooring/shim/virt/libvirt/libvirttest"
)

func TestRealLibvirt(t *testing.T) { libvirttest.LeftOut(t) }
