//go:build cgo && libvirt_dlopen

package libvirt

import (
	"context"
	"testing"
	"time"

	"github.com/mooring-vm/mooring/shim/virt"
	"github.com/mooring-vm/mooring/shim/virt/libvirt/libvirttest"
)

// shortPause is a back-off that tests can wait for.
const shortPause = 200 * time.Millisecond

// bootDefined starts a domain with a definition, createTransient one without.
func bootDefined(
	t *testing.T,
	d *libvirttest.Daemon,
	c virt.Connection,
	v libvirttest.VM,
) virt.Domain {
	t.Helper()
	d.BootDefined(t, v.XML(t))
	return find(t, c, libvirttest.Name)
}

func createTransient(t *testing.T, d *libvirttest.Daemon, c virt.Connection) virt.Domain {
	t.Helper()
	d.CreateTransient(t, libvirttest.VM{}.XML(t))
	return find(t, c, libvirttest.Name)
}

// open connects, and closes the connection when the test ends.
func open(t *testing.T, uri string, o Options) virt.Connection {
	t.Helper()
	if err := StartEvents(); err != nil {
		libvirttest.Require(t, err.Error())
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c, err := Open(ctx, uri, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}
