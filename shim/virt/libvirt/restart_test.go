//go:build cgo && libvirt_dlopen

package libvirt

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"libvirt.org/go/libvirt"

	"github.com/mooring-vm/mooring/shim/virt"
	"github.com/mooring-vm/mooring/shim/virt/libvirt/libvirttest"
)

// readDefined returns the state that the domain will have after its next start.
func readDefined(t *testing.T, conn *libvirt.Connect, name string) virt.State {
	t.Helper()
	handle, err := conn.LookupDomainByName(name)
	must(t, err)
	defer func() { _ = handle.Free() }()
	def, err := readDefinition(handle, libvirt.DOMAIN_XML_INACTIVE)
	must(t, err)
	s := def.state()
	// The test driver rejects this call.
	if params, err := handle.GetSchedulerParametersFlags(libvirt.DOMAIN_AFFECT_CONFIG); err == nil {
		s.Bandwidth = bandwidthFromParameters(params)
	}
	return s
}

func readDefinedOf(t *testing.T, d *libvirttest.Daemon) (s virt.State) {
	t.Helper()
	d.WithConnect(t, func(conn *libvirt.Connect) error {
		s = readDefined(t, conn, libvirttest.Name)
		return nil
	})
	return s
}

// Changes survive a restart, after which the vCPUs can be unplugged.
func TestRestart(t *testing.T) {
	d := libvirttest.Start(t, true)
	v := bootDefined(t, d, open(t, d.URI, Options{}), libvirttest.VM{})
	must(
		t, v.SetVCPUs(t.Context(), 3), v.RequestMemory(t.Context(), "virtiomem0", 64*mib),
		v.AttachDIMM(t.Context(), 0, 128*mib),
	)
	if d.HasCPUController() {
		must(
			t,
			v.SetBandwidth(
				t.Context(),
				virt.Bandwidth{
					Period: 100 * time.Millisecond,
					Quota:  50 * time.Millisecond,
					Shares: 200,
				},
			),
		)
	}
	want, err := v.State(t.Context())
	must(t, err, v.Destroy(t.Context()))
	if want.VCPUs.Plugged != 3 || want.VCPUs.Boot != 1 || len(want.Memory.Devices) != 2 {
		t.Errorf("%+v before, want 3 vCPUs, 1 of them at boot, and 2 devices", want)
	}
	d.WithConnect(t, func(conn *libvirt.Connect) error {
		handle, err := conn.LookupDomainByName(libvirttest.Name)
		must(t, err)
		return handle.Create()
	})
	got, err := v.State(t.Context())
	must(t, err)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("after a restart (-before +after)\n%s", diff)
	}
}

// A repeated detach of a DIMM finds it missing in the definition and must not remove a similar one.
func TestRepeatedDIMMDetach(t *testing.T) {
	d := libvirttest.Start(t, false)
	v := bootDefined(t, d, open(t, d.URI, Options{}), libvirttest.VM{})
	must(t, v.AttachDIMM(t.Context(), 0, 128*mib), v.AttachDIMM(t.Context(), 0, 128*mib))
	for range 2 {
		must(t, v.DetachDIMM(t.Context(), "dimm0"))
	}
	if s := readDefinedOf(t, d); len(s.Memory.Devices) != 2 {
		t.Errorf("the definition has %+v, want virtio-mem and the other DIMM", s.Memory.Devices)
	}
}
