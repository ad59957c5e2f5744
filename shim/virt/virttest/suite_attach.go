package virttest

import (
	"testing"

	"github.com/mooring-vm/mooring/shim/virt"
)

// RunAttach is the part of the suite for a domain as KubeVirt defines it: with a maximum memory,
// and without slots and memory devices. It attaches a virtio-mem device as KubeVirt does.
func RunAttach(t *testing.T, newFixture func(t *testing.T) Fixture) {
	f := newFixture(t)
	before := f.state(t).Memory
	if before.Maximum <= before.Boot || before.Slots > 0 || len(before.Devices) > 0 {
		t.Fatalf("memory %+v, want only a maximum above the boot memory", before)
	}
	want := virt.MemoryDevice{
		Model: virt.VirtioMem, Size: before.Maximum - before.Boot, Block: 2 << 20,
		Requested: 64 << 20,
	}
	attach := func(change func(*virt.MemoryDevice)) error {
		d := want
		change(&d)
		return f.Domain.AttachVirtioMem(t.Context(), d)
	}
	for what, change := range map[string]func(*virt.MemoryDevice){
		"a missing cell":           func(d *virt.MemoryDevice) { d.Cell = before.Cells },
		"half a KiB":               func(d *virt.MemoryDevice) { d.Requested = 512 },
		"a request above the size": func(d *virt.MemoryDevice) { d.Requested = 2 * d.Size },
		"a size above the maximum": func(d *virt.MemoryDevice) { d.Size *= 2 },
		"a size of half a block":   func(d *virt.MemoryDevice) { d.Size = d.Block / 2 },
		"no block":                 func(d *virt.MemoryDevice) { d.Block = 0 },
	} {
		f.expectRefused(t, what, attach(change))
	}
	must(t, attach(func(*virt.MemoryDevice) {}))
	f.await(t, "the guest has the requested size", func(s virt.State) bool {
		d := findDevice(s, "virtiomem0")
		return d.Current == want.Requested && s.Memory.Balloon == before.Balloon+want.Requested
	})
	after := f.state(t).Memory
	want.Alias, want.Current = "virtiomem0", want.Requested
	if len(after.Devices) != 1 || after.Devices[0] != want || after.Boot != before.Boot {
		t.Errorf("memory %+v, want one device, %+v", after, want)
	}
	f.expectDefined(t, "the device", func(s virt.State) bool {
		return len(s.Memory.Devices) == 1 && s.Memory.Devices[0].Size == want.Size &&
			s.Memory.Devices[0].Requested == want.Requested
	})
	f.expectRefused(t, "a second device", attach(func(*virt.MemoryDevice) {}))
	f.VirtioMem = want.Alias
	must(t, f.Domain.RequestMemory(t.Context(), want.Alias, 0))
	f.await(t, "the guest has released the device", func(s virt.State) bool {
		return findDevice(s, want.Alias).Current == 0
	})
}
