package virttest

import (
	"fmt"
	"slices"
	"testing"

	"github.com/mooring-vm/mooring/shim/virt"
)

func (f Fixture) testVirtioMem(t *testing.T) {
	request := func(alias string, bytes uint64) error {
		return f.Domain.RequestMemory(t.Context(), alias, bytes)
	}
	f.expectRefused(t, "a missing device", request("nothing", 0), virt.ErrNoDevice)
	if f.VirtioMem == "" {
		err := f.Domain.AttachVirtioMem(t.Context(), virt.MemoryDevice{
			Size: 128 << 20, Block: 2 << 20,
		})
		f.expectRefused(t, "a virtio-mem device", err, virt.ErrUnsupported)
		return
	}
	before := f.virtioMemDevice(t)
	balloon := f.state(t).Memory.Balloon
	for _, wrong := range []uint64{1, before.Block / 2, before.Size + before.Block} {
		f.expectRefused(t, "an unaligned or too large request", request(f.VirtioMem, wrong))
	}
	if after := f.virtioMemDevice(t); after != before {
		t.Errorf("%+v after refusals, %+v before", after, before)
	}
	for _, bytes := range []uint64{16 * before.Block, 4 * before.Block, 0} {
		must(t, request(f.VirtioMem, bytes))
		if d := f.virtioMemDevice(t); d.Requested != bytes {
			t.Errorf("%+v, want %d requested", d, bytes)
		}
		f.expectDefined(t, fmt.Sprintf("virtio-mem of %d bytes", bytes), func(s virt.State) bool {
			return slices.ContainsFunc(
				s.Memory.Devices,
				func(d virt.MemoryDevice) bool {
					return d.Model == virt.VirtioMem && d.Requested == bytes
				},
			)
		})
		f.await(t, "the guest has the requested size", func(s virt.State) bool {
			return findDevice(s, f.VirtioMem).Current == bytes && s.Memory.Balloon == balloon+bytes
		})
	}
}

func (f Fixture) virtioMemDevice(t *testing.T) virt.MemoryDevice {
	t.Helper()
	return findDevice(f.state(t), f.VirtioMem)
}

func findDevice(s virt.State, alias string) virt.MemoryDevice {
	at := slices.IndexFunc(
		s.Memory.Devices, func(d virt.MemoryDevice) bool { return d.Alias == alias },
	)
	if at < 0 {
		return virt.MemoryDevice{}
	}
	return s.Memory.Devices[at]
}

func (f Fixture) testDIMM(t *testing.T) {
	attach := func(cell int, bytes uint64) error {
		return f.Domain.AttachDIMM(t.Context(), cell, bytes)
	}
	if f.DIMM == 0 {
		f.expectRefused(t, "a DIMM", attach(0, 128<<20), virt.ErrUnsupported)
		return
	}
	before := f.state(t).Memory
	f.expectRefused(t, "a missing cell", attach(before.Cells, f.DIMM))
	f.expectRefused(t, "an invalid size", attach(0, 1))
	f.expectRefused(t, "a size above the maximum", attach(0, before.Maximum))
	must(t, attach(0, f.DIMM))
	after := f.state(t).Memory
	if len(after.Devices) != len(before.Devices)+1 || after.Boot != before.Boot ||
		after.Balloon != before.Balloon+f.DIMM {
		t.Fatalf("%+v after a DIMM, %+v before", after, before)
	}
	d := after.Devices[len(after.Devices)-1]
	want := (virt.MemoryDevice{Alias: d.Alias, Model: virt.DIMM, Size: f.DIMM})
	if d != want || d.Alias == "" {
		t.Errorf("the DIMM is %+v, want %+v", d, want)
	}
	f.expectDefinedDIMMs(t, 1)
	f.expectRefused(
		t, "detach of another DIMM", f.Domain.DetachDIMM(t.Context(), d.Alias+"0"),
		virt.ErrNoDevice,
	)
	f.detachAll(t)
}

func (f Fixture) expectDefinedDIMMs(t *testing.T, n int) {
	t.Helper()
	f.expectDefined(t, fmt.Sprintf("%d DIMMs", n), func(s virt.State) bool {
		for _, d := range s.Memory.Devices {
			if d.Model == virt.DIMM && d.Size == f.DIMM && d.Cell == 0 {
				n--
			}
		}
		return n == 0
	})
}

// detachAll repeats the request until the guest has brought all DIMMs online and released them.
func (f Fixture) detachAll(t *testing.T) {
	t.Helper()
	f.await(t, "DIMMs are gone", func(s virt.State) bool {
		gone := true
		for _, d := range s.Memory.Devices {
			if d.Model == virt.DIMM {
				gone = false
				_ = f.Domain.DetachDIMM(t.Context(), d.Alias)
			}
		}
		return gone
	})
	f.expectDefinedDIMMs(t, 0)
}

func (f Fixture) testSlots(t *testing.T) {
	if f.DIMM == 0 {
		return
	}
	m := f.state(t).Memory
	var err error
	plugged := 0
	for ; err == nil && plugged <= m.Slots; plugged++ {
		err = f.Domain.AttachDIMM(t.Context(), 0, f.DIMM)
	}
	f.expectRefused(t, "a DIMM without a slot", err)
	// Older versions of libvirt give virtio-mem devices slots too.
	got, least := len(f.state(t).Memory.Devices), m.Slots
	if got != len(m.Devices)+plugged-1 || got < least {
		t.Errorf(
			"%d devices after %d DIMMs were tried, %d before: want %d or more", got, plugged,
			len(m.Devices), least,
		)
	}
	f.expectDefinedDIMMs(t, plugged-1)
	f.detachAll(t)
}

func (f Fixture) testBalloon(t *testing.T) {
	set := func(bytes uint64) error { return f.Domain.SetBalloon(t.Context(), bytes) }
	full := f.state(t).Memory.Balloon
	if !f.Balloon {
		f.expectRefused(t, "a balloon", set(full/2), virt.ErrUnsupported)
		return
	}
	f.expectRefused(t, "half a KiB", set(full-512))
	f.expectRefused(t, "a balloon above the guest's memory", set(full+1<<30))
	for _, bytes := range []uint64{full - 32<<20, full} {
		must(t, set(bytes))
		f.expectDefined(
			t, fmt.Sprintf("a balloon that leaves %d bytes", bytes),
			func(s virt.State) bool { return s.Memory.Balloon == bytes },
		)
		f.await(
			t, "the guest has what the balloon leaves",
			func(s virt.State) bool { return s.Memory.Balloon == bytes },
		)
	}
}
