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

// libvirt's test driver supports vCPUs and a balloon only.
func TestTestDriverConformance(t *testing.T) {
	virttest.Run(t, func(t *testing.T) virttest.Fixture {
		c := open(t, "test:///default", Options{})
		return virttest.Fixture{
			Connection: c,
			Domain:     testDriverDomain(t, c),
			VCPUs:      true,
			Unplug:     true,
			Defined: func(t *testing.T) virt.State {
				return readDefined(t, c.(*connection).link.conn, "vm-1")
			},
			Restart: func(t *testing.T) { startAgain(t, c.(*connection).link.conn, "vm-1") },
		}
	})
}

func TestQEMUConformance(t *testing.T) {
	if testing.Short() {
		t.Skip("left out with -short: boots a guest")
	}
	d := libvirttest.Start(t, true)
	v := d.LinuxVM(t)
	virttest.Run(t, func(t *testing.T) virttest.Fixture {
		c := open(t, d.URI, Options{MaxBackoff: shortPause})
		return virttest.Fixture{
			Connection: c,
			Domain:     bootDefined(t, d, c, v),
			Defined:    func(t *testing.T) virt.State { return readDefinedOf(t, d) },
			VCPUs:      true,
			Unplug:     d.UnplugsVCPUs(t),
			Agent:      true,
			VirtioMem:  "virtiomem0",
			DIMM:       128 << 20,
			Balloon:    true,
			Bandwidth:  d.HasCPUController(),
			ACPI:       true,
			Restart: func(t *testing.T) {
				d.WithConnect(t, func(conn *libvirt.Connect) error {
					startAgain(t, conn, libvirttest.Name)
					return nil
				})
			},
			StopLibvirt:  func(t *testing.T) { d.SignalLibvirtd(t, syscall.SIGKILL) },
			StartLibvirt: func(t *testing.T) { d.StartLibvirtd(t) },
		}
	})
}

func TestQEMUAttach(t *testing.T) {
	if testing.Short() {
		t.Skip("left out with -short: boots a guest")
	}
	d := libvirttest.Start(t, false)
	d.RequireAttach(t)
	v := d.LinuxVM(t)
	v.KubeVirt = true
	virttest.RunAttach(t, func(t *testing.T) virttest.Fixture {
		c := open(t, d.URI, Options{MaxBackoff: shortPause})
		return virttest.Fixture{
			Connection: c,
			Domain:     bootDefined(t, d, c, v),
			Defined:    func(t *testing.T) virt.State { return readDefinedOf(t, d) },
		}
	})
}

// startAgain starts a defined domain that is off.
func startAgain(t *testing.T, conn *libvirt.Connect, name string) {
	t.Helper()
	handle, err := conn.LookupDomainByName(name)
	must(t, err)
	defer func() { _ = handle.Free() }()
	must(t, handle.Create())
}

// testDriverDomain creates a domain with spare vCPUs. The test driver's own domain has none.
func testDriverDomain(t *testing.T, c virt.Connection) virt.Domain {
	t.Helper()
	handle, err := c.(*connection).link.conn.DomainDefineXML(`<domain type='test'><name>vm-1</name>
		<memory>262144</memory><vcpu current='1'>16</vcpu><os><type>hvm</type></os></domain>`)
	if err == nil {
		err = handle.Create()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // the driver keeps its domains until this process ends
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
