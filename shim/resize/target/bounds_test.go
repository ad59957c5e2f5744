package target_test

import (
	"strings"
	"testing"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/shim/resize/target"
)

// A size that follows the limits stays within the VM's bounds, in each dimension.
func TestBounds(t *testing.T) {
	g := target.Guest{
		Boot: gi, Block: 2 * mi, MaxMemory: 4 * gi, VCPUs: 2, MinVCPUs: 2, MaxVCPUs: 4,
	}
	for _, c := range []struct {
		memory uint64
		cpu    int64
		want   api.Size
		notes  string
	}{
		{3 * gi, 3000, api.Size{Memory: 2 * gi, VCPUs: 3}, ""},
		{3 * gi, 8000, api.Size{Memory: 2 * gi, VCPUs: 4},
			"vCPUs: the CPU limit allows 8, and the VM can have 2 to 4"},
		{64 * gi, 1000, api.Size{Memory: 4 * gi, VCPUs: 2},
			"vCPUs: the CPU limit allows 1, and the VM can have 2 to 4; " +
				"memory: the limit allows 63Gi, and the VM can have at most 4Gi"},
	} {
		got, err := target.Compute(launcher(c.memory, c.cpu), g, target.Fixed(gi))
		if notes := strings.Join(got.Notes, "; "); err != nil || got.Size != c.want ||
			notes != c.notes {
			t.Errorf("%d, %d: %+v, %q, %v, want %+v, %q", c.memory, c.cpu, got.Size, notes, err,
				c.want, c.notes)
		}
		if b := got.Bandwidth; c.cpu == 1000 && b.Quota != b.Period/2 {
			t.Errorf("bandwidth %+v, want the limit spread over 2 vCPUs", b)
		}
	}
}

// A request is rounded down to whole blocks from the boot memory, but not to whole DIMMs.
func TestRounding(t *testing.T) {
	for _, c := range []struct {
		guest           target.Guest
		requested, want api.Bytes
	}{
		{target.Guest{Boot: 955 * mi, Block: 2 * mi}, 2 * gi, 2047 * mi},
		{target.Guest{Boot: 955 * mi, Block: 2 * mi}, 955 * mi, 955 * mi},
		{target.Guest{Boot: gi, Block: 128 * mi}, 2*gi - 1, 2*gi - 128*mi},
		{target.Guest{Boot: gi}, 2*gi - 1, 2*gi - 1},
		{target.Guest{Boot: gi, Block: 128 * mi, DIMMs: []uint64{4 * gi}}, 4 * gi, 4 * gi},
	} {
		c.guest.Keeps = true
		got, err := target.Compute(
			sized(launcher(0, 0), api.Size{Memory: c.requested}), c.guest, target.Fixed(gi),
		)
		if err != nil || got.Memory != c.want || len(got.Notes) > 0 != (c.want != c.requested) {
			t.Errorf("%+v, %s: %+v, %v, want %s", c.guest, c.requested, got, err, c.want)
		}
	}
}
