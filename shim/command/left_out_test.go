//go:build !cgo || !libvirt_dlopen

package command_test

import (
	"testing"

	"github.com/mooring-vm/mooring/shim/virt/libvirt/libvirttest"
)

func TestRealLibvirt(t *testing.T) { libvirttest.LeftOut(t) }
