package wanted_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/shim/resize/wanted"
	"github.com/mooring-vm/mooring/shim/virt"
)

// What a memory limit gives fits it with its overhead, is a size that the guest can
// have, and one more block would not fit.
func TestMemoryFits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := wanted.Guest{
			Boot:  rapid.Uint64Range(1, 64).Draw(t, "boot") * 64 * mi,
			Block: rapid.SampledFrom([]uint64{2 * mi, 128 * mi, gi}).Draw(t, "block"), VCPUs: 1,
		}
		per := rapid.Uint64Range(1, 512).Draw(t, "overhead per")
		overhead := func(guest uint64, _ int) (uint64, error) { return 100*mi + guest/per, nil }
		limit := rapid.Uint64Range(1, 1<<40).Draw(t, "limit")
		s, err := wanted.From(launcher(limit, 0), g, overhead, api.Request{})
		if err != nil {
			return
		}
		more, _ := overhead(s.Memory+g.Block, 1)
		if s.Need() > limit || s.Memory%g.Block != g.Boot%g.Block || s.Memory+g.Block+more <= limit {
			t.Fatalf("limit %d, %+v: %+v", limit, g, s)
		}
	})
}

// libvirt takes what is computed, and it is right to the microsecond.
func TestSpreadIsPrecise(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		milli := rapid.Int64Range(1, 1<<30).Draw(t, "milli")
		vcpus := rapid.IntRange(1, 8192).Draw(t, "vcpus")
		b, err := wanted.Spread(milli, vcpus)
		if err != nil {
			if milli >= int64(vcpus) {
				t.Fatalf("%v, and each vCPU has 0.1 %%", err)
			}
			return
		}
		if (b.Quota == virt.Unlimited) != (milli >= int64(vcpus)*1000) {
			t.Fatalf("%+v", b)
		}
		if b.Quota == virt.Unlimited {
			return
		}
		period, quota := b.Period.Microseconds(), b.Quota.Microseconds()
		if period < 1000 || period > 1000000 || quota < 1000 || b.Quota%time.Microsecond != 0 {
			t.Fatalf("libvirt does not take %+v", b)
		}
		exact := period * milli
		if off := exact - quota*int64(vcpus)*1000; off < 0 || off >= int64(vcpus)*1000 {
			t.Fatalf("%+v is off by more than a microsecond", b)
		}
	})
}
