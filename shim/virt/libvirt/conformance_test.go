//go:build cgo && libvirt_dlopen

package libvirt

import (
	"syscall"
	"testing"

	"libvirt.org/go/libvirt"

	"github.com/mooring-vm/mooring/shim/virt"
	"github.com/mooring-vm/mooring/shim/virt/libvirt/libvirttest"
	"github.com/mooring-vm/mooring/shim/virt/virttest"
)

// libvirt's own fake knows vCPUs and a balloon, and that is all.
func TestConformanceOfTestDriver(t *testing.T) {
	virttest.Run(t, func(t *testing.T) virttest.Fixture {
		c := open(t, "test:///default", Options{})
		return virttest.Fixture{
			Connection: c, Domain: ofTestDriver(t, c), VCPUs: true, Unplug: true,
			Defined:   func(t *testing.T) virt.State { return defined(t, c.(*connection).link.conn, "vm-1") },
			StartAnew: func(t *testing.T) { startAnew(t, c.(*connection).link.conn, "vm-1") },
		}
	})
}

func TestConformanceOfQEMU(t *testing.T) {
	if testing.Short() {
		t.Skip("left out with -short: boots a guest")
	}
	d := libvirttest.Start(t, true)
	v := d.Linux(t)
	virttest.Run(t, func(t *testing.T) virttest.Fixture {
		c := open(t, d.URI, Options{MaxBackoff: quick})
		return virttest.Fixture{
			Connection: c, Domain: boot(t, d, c, v), Defined: func(t *testing.T) virt.State { return definedBy(t, d) }, VCPUs: true, Unplug: d.Unplugs(t), Agent: true, VirtioMem: "virtiomem0",
			DIMM: 128 << 20, Balloon: true, Bandwidth: d.LimitsCPU(), ACPI: true,
			StartAnew: func(t *testing.T) {
				d.Raw(t, func(conn *libvirt.Connect) error {
					startAnew(t, conn, libvirttest.Name)
					return nil
				})
			},
			Lose: func(t *testing.T) { d.Signal(t, syscall.SIGKILL) }, Return: func(t *testing.T) { d.Return(t) },
		}
	})
}

// ofTestDriver makes a domain with room: the one that is there has none.
func startAnew(t *testing.T, conn *libvirt.Connect, name string) {
	t.Helper()
	handle, err := conn.LookupDomainByName(name)
	must(t, err)
	defer func() { _ = handle.Free() }()
	must(t, handle.Create())
}

func ofTestDriver(t *testing.T, c virt.Connection) virt.Domain {
	t.Helper()
	handle, err := c.(*connection).link.conn.DomainDefineXML(`<domain type='test'><name>vm-1</name>
		<memory>262144</memory><vcpu current='1'>16</vcpu><os><type>hvm</type></os></domain>`)
	if err == nil {
		err = handle.Create()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // the driver lives as long as this process
		_ = handle.Destroy()
		if err := handle.Undefine(); err != nil {
			t.Error(err)
		}
	})
	return find(t, c, "vm-1")
}

func find(t *testing.T, c virt.Connection, name string) virt.Domain {
	t.Helper()
	d, err := c.Domain(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	return d
}
