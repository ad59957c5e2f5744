//go:build cgo && libvirt_dlopen

package libvirt

import (
	"slices"
	"testing"
	"time"

	"libvirt.org/go/libvirt"

	"github.com/mooring-vm/mooring/shim/virt"
	"github.com/mooring-vm/mooring/shim/virt/libvirt/libvirttest"
)

// events are the names of the events that a connection received.
type events chan string

func listen(t *testing.T, d *libvirttest.Daemon) events {
	t.Helper()
	_ = open(t, d.URI, Options{}) // waits for libvirtd
	heard := make(events, 1024)
	l, err := connect(d.URI, Options{}.withDefaults(), func(_, event string) { heard <- event })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.close)
	return heard
}

// next waits for one of the named events and skips others.
func (e events) next(t *testing.T, names ...string) string {
	t.Helper()
	name := e.within(time.Minute, names...)
	if name == "" {
		t.Fatalf("no event of %q", names)
	}
	return name
}

// within is next with a time limit. It returns "" after that.
func (e events) within(bound time.Duration, names ...string) string {
	timeout := time.After(bound)
	for {
		select {
		case name := <-e:
			if slices.Contains(names, name) {
				return name
			}
		case <-timeout:
			return ""
		}
	}
}

// withDomain calls f with the domain on a second connection.
func withDomain(t *testing.T, d *libvirttest.Daemon, f func(*libvirt.Domain) error) {
	t.Helper()
	d.WithConnect(t, func(conn *libvirt.Connect) error {
		handle, err := conn.LookupDomainByName(libvirttest.Name)
		if err != nil {
			return err
		}
		defer func() { _ = handle.Free() }()
		return f(handle)
	})
}

const dimmXML = `<memory model='dimm'><target>
	<size unit='MiB'>128</size><node>0</node>
</target></memory>`

// request requests virtio-mem memory on a second connection.
func request(t *testing.T, d *libvirttest.Daemon, bytes uint64) {
	t.Helper()
	withDomain(t, d, func(handle *libvirt.Domain) error {
		live, err := readDefinition(handle, 0)
		if err != nil {
			return err
		}
		device, err := live.device("virtiomem0")
		if err != nil {
			return err
		}
		device.Target.Requested.Value = uint(bytes >> 10)
		return withXML(device, libvirt.DOMAIN_DEVICE_MODIFY_LIVE, handle.UpdateDeviceFlags)
	})
}

func attachDIMM(handle *libvirt.Domain) error {
	return handle.AttachDeviceFlags(dimmXML, libvirt.DOMAIN_DEVICE_MODIFY_LIVE)
}

func detachDIMM(handle *libvirt.Domain) error {
	return handle.DetachDeviceAlias("dimm0", libvirt.DOMAIN_DEVICE_MODIFY_LIVE)
}

// Each libvirt event that a guest or another connection can cause arrives.
func TestEvents(t *testing.T) {
	if testing.Short() {
		t.Skip("left out with -short: boots a guest")
	}
	d := libvirttest.Start(t, false)
	heard := listen(t, d)
	v := bootDefined(t, d, open(t, d.URI, Options{}), d.LinuxVM(t))
	heard.next(t, "lifecycle")
	heard.next(t, "agent-lifecycle")
	d.AwaitConsole(t, "GUEST cpus=")
	withDomain(
		t,
		d,
		func(handle *libvirt.Domain) error {
			return handle.SetMemoryFlags(128<<10, libvirt.DOMAIN_MEM_LIVE)
		},
	)
	heard.next(t, "balloon-change")
	request(t, d, 64*mib)
	heard.next(t, "memory-device-size-change")
	withDomain(t, d, attachDIMM)
	heard.next(t, "device-added")
	// A guest that is not ready refuses or stays silent.
	for tries, removed := 1, false; !removed; tries++ {
		withDomain(t, d, detachDIMM)
		removed = heard.within(
			20*time.Second, "device-removed", "device-removal-failed",
		) == "device-removed"
		if !removed && tries == 10 {
			t.Fatal("the guest did not release the DIMM")
		}
	}
	if d.UnplugsVCPUs(t) && hasVCPUEvents(t, d) {
		must(t, v.SetVCPUs(t.Context(), 2))
		awaitState(
			t, v, "the guest uses the vCPUs",
			func(s virt.State, _ error) bool { return s.VCPUs.Online == 2 },
		)
		must(t, v.SetVCPUs(t.Context(), 1))
		heard.next(t, "vcpu-removed")
	}
}

// hasVCPUEvents reports whether libvirt's library and daemon are 12.4 or newer.
func hasVCPUEvents(t *testing.T, d *libvirttest.Daemon) bool {
	t.Helper()
	library, err := libvirt.GetVersion()
	must(t, err)
	oldest := library
	d.WithConnect(t, func(conn *libvirt.Connect) error {
		daemon, err := conn.GetLibVersion()
		oldest = min(library, daemon)
		return err
	})
	return oldest >= 12_004_000
}

func TestRemovalFailedEvent(t *testing.T) {
	if testing.Short() {
		t.Skip("left out with -short: boots a guest")
	}
	d := libvirttest.Start(t, false)
	heard := listen(t, d)
	bootDefined(t, d, open(t, d.URI, Options{}), d.LinuxVM(t, "guest.keep-dimms"))
	d.AwaitConsole(t, "GUEST cpus=")
	withDomain(t, d, attachDIMM)
	withDomain(t, d, detachDIMM)
	heard.next(t, "device-removal-failed")
}

func TestMigrationEvents(t *testing.T) {
	source, target := libvirttest.Start(t, false), libvirttest.Start(t, false)
	heard := listen(t, source)
	_ = open(t, target.URI, Options{})
	bootDefined(t, source, open(t, source.URI, Options{}), libvirttest.VM{})
	m := source.Migrate(t, target)
	heard.next(t, "migration-iteration")
	must(t, m.Wait())
	heard.next(t, "job-completed")
}

// Changed reports changes made by the guest and by other connections.
func TestChangedNotices(t *testing.T) {
	if testing.Short() {
		t.Skip("left out with -short: boots a guest")
	}
	d := libvirttest.Start(t, false)
	v := bootDefined(t, d, open(t, d.URI, Options{}), d.LinuxVM(t))
	d.AwaitConsole(t, "GUEST cpus=")
	await := awaitByNotices(t, v)
	withDomain(t, d, (*libvirt.Domain).Suspend)
	await("it is paused", func(s virt.State) bool { return s.Phase == virt.Paused })
	withDomain(t, d, (*libvirt.Domain).Resume)
	await("it runs", func(s virt.State) bool { return s.Phase == virt.Running })
	request(t, d, 64*mib)
	await(
		"the guest has taken memory",
		func(s virt.State) bool { return s.Memory.Devices[0].Current == 64*mib },
	)
	withDomain(t, d, attachDIMM)
	await("it has a DIMM", func(s virt.State) bool { return len(s.Memory.Devices) == 2 })
	withDomain(t, d, func(handle *libvirt.Domain) error {
		return handle.ShutdownFlags(libvirt.DOMAIN_SHUTDOWN_ACPI_POWER_BTN)
	})
	await("the guest is off", func(s virt.State) bool { return s.Phase == virt.ShutOff })
}

// awaitByNotices returns a function that waits for a condition. It reads the state only after a
// notice.
func awaitByNotices(t *testing.T, v virt.Domain) func(what string, is func(virt.State) bool) {
	t.Helper()
	changed, err := v.Changed(t.Context())
	must(t, err)
	return func(condition string, met func(virt.State) bool) {
		t.Helper()
		timeout := time.After(time.Minute)
		for {
			select {
			case <-changed:
			case <-timeout:
				t.Fatalf("no notice that %s", condition)
			}
			if s, err := v.StateWithoutGuest(t.Context()); err == nil && met(s) {
				return
			}
		}
	}
}
