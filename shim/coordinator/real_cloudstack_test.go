//go:build cgo && libvirt_dlopen

package coordinator_test

import (
	"strings"
	"testing"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/api/podapi"
	"github.com/mooring-vm/mooring/shim/headroom"
	"github.com/mooring-vm/mooring/shim/virt/libvirt/libvirttest"
)

// cells are two NUMA cells with a vCPU each.
const cells = `<cpu><numa>
  <cell id='0' cpus='0' memory='128' unit='MiB'/><cell id='1' cpus='1' memory='128' unit='MiB'/>
</numa></cpu></domain>`

// Each case has the result of CloudStack's live scaling beside the shim's. Cases with a
// failing step are in TestUncooperativeGuest. Package resize tests all of them with the fake.
func TestCloudStackCasesOnQEMU(t *testing.T) {
	p := newPod(t)
	vm := p.daemon.LinuxVM(t)
	vm.NoHeadroom, vm.Memory = true, int(booted/mi)
	two := strings.NewReplacer("<vcpu>1</vcpu>", "<vcpu>2</vcpu>", "</domain>",
		cells).Replace(vm.XML(t))
	p.bootXML(t, prepareXML(t, two, headroom.Options{Device: headroom.DIMM, Slots: 3,
		Memory: 1024, CPUs: 8}))
	p.startShim(t)
	for _, c := range []struct {
		name, cloudStack, shim string
		vcpus                  int
		memory                 int64
		cells                  []int // of the DIMMs
	}{
		{"memory and vCPUs", "memory, then vCPUs", "the same", 3, booted + dimm, []int{0}},
		{"several NUMA cells", "node 0, always", "the emptiest one", 3, booted + 2*dimm,
			[]int{0, 1}},
		{"less of one, more of another", "refused: only scaling up", "shrinks, then grows", 4,
			booted + dimm, []int{0}},
		{"only less memory", "refused: only scaling up", "shrinks", 4, booted, nil},
	} {
		s := p.mustResize(t, func(w *podapi.Desired) {
			w.VCPUs, w.Memory = c.vcpus, api.Bytes(c.memory)
		})
		if s.VCPUs.Online != c.vcpus || s.Memory.Balloon != uint64(c.memory) ||
			len(s.Memory.Devices) != len(c.cells) {
			t.Fatalf("%s (CloudStack: %s; shim: %s): %+v", c.name, c.cloudStack, c.shim, s)
		}
		for i, d := range s.Memory.Devices {
			if d.Cell != c.cells[i] {
				t.Errorf("%s (CloudStack: %s; shim: %s): %+v, want it in cell %d", c.name,
					c.cloudStack, c.shim, d, c.cells[i])
			}
		}
	}
	// CloudStack: error 530 for the second scaling beyond the maximum set at boot.
	p.expectRefused(t, guestMemory(booted+8*dimm), "1280Mi exceeds the domain's <maxMemory>, 1Gi")
	p.expectRefused(t, vcpus(9), "9") // CloudStack: fails after the memory was plugged
}

// The shim changes nothing of a domain without headroom, and reports all reasons. CloudStack fails
// after it has reserved limits or plugged memory.
func TestNotPrepared(t *testing.T) {
	p := newPod(t)
	// firmware alone
	p.daemon.BootDefined(t, libvirttest.VM{NoHeadroom: true, Memory: int(booted / mi)}.XML(t))
	var err error
	if p.Domain, err = p.connection.Domain(t.Context(), libvirttest.Name); err != nil {
		t.Fatal(err)
	}
	p.startShim(t)
	both := func(w *podapi.Desired) { w.VCPUs, w.Memory = 2, 2*booted }
	p.expectRefused(t, both, "memory: the domain has no headroom")
	p.expectRefused(t, both, "vCPUs: the domain has no headroom")
	if s := p.read(t); s.VCPUs.Plugged != 1 {
		t.Errorf("vCPUs %+v, want 1", s.VCPUs)
	}
}
