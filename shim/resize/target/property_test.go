package target_test

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/mooring-vm/mooring/memlock/kubevirt"
	"github.com/mooring-vm/mooring/shim/resize/target"
	"github.com/mooring-vm/mooring/shim/virt"
)

// The computed memory fits the limit with its overhead and is a possible size of the guest. One
// more block does not fit.
func TestMemoryFits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := target.Guest{
			Boot:  rapid.Uint64Range(1, 64).Draw(t, "boot") * 64 * mi,
			Block: rapid.SampledFrom([]uint64{2 * mi, 128 * mi, gi}).Draw(t, "block"), VCPUs: 1,
		}
		per := rapid.Uint64Range(1, 512).Draw(t, "overhead per")
		overhead := func(guest uint64, _ int) (uint64, error) { return 100*mi + guest/per, nil }
		limit := rapid.Uint64Range(1, 1<<40).Draw(t, "limit")
		s, err := target.Compute(launcher(limit, 0), g, overhead)
		if err != nil {
			return
		}
		more, _ := overhead(s.GuestMemory()+g.Block, 1)
		if s.MemoryRequirement() > limit || s.GuestMemory()%g.Block != g.Boot%g.Block ||
			s.GuestMemory()+g.Block+more <= limit {
			t.Fatalf("limit %d, %+v: %+v", limit, g, s)
		}
	})
}

// The memory fits the limit to the byte for any VM, version and ratio, and one more block does not
// fit. Only a limit below the smallest guest is an error.
func TestFormulaIsSolvedExactly(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f, domain := anyFormula(t)
		overhead, err := f.Of(domain)
		if err != nil {
			t.Fatal(err)
		}
		g := target.Guest{
			Boot:  rapid.Uint64Range(1, 512).Draw(t, "boot") * 2 * mi,
			Block: rapid.SampledFrom([]uint64{2 * mi, 128 * mi, gi}).Draw(t, "block"),
			VCPUs: rapid.IntRange(1, 512).Draw(t, "vCPUs"),
		}
		limit := rapid.Uint64Range(1, rapid.SampledFrom([]uint64{gi, 64 * gi, 1 << 50}).Draw(t,
			"order")).Draw(t, "limit")
		s, err := target.Compute(launcher(limit, 0), g, overhead)
		next := s.GuestMemory() + g.Block
		if err != nil {
			next = (g.Boot-1)%g.Block + 1 // the smallest guest
		}
		more, failed := overhead(next, g.VCPUs)
		if failed != nil || next+more <= limit {
			t.Fatalf("limit %d, %+v: %+v, %v, and %d with %d fits; %v", limit, g, s, err, next,
				more, failed)
		}
		if err == nil && (s.GuestMemory()+s.Overhead > limit ||
			s.GuestMemory()%g.Block != g.Boot%g.Block) {
			t.Fatalf("limit %d, %+v: %+v", limit, g, s)
		}
	})
}

// Without a version the overhead is no lower than with any: main counts the most.
func TestMainCountsTheMost(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f, domain := anyFormula(t)
		newest := f
		newest.Version = kubevirt.Main()
		guest, vcpus := rapid.Uint64Range(mi, 1<<45).Draw(t, "guest"),
			rapid.IntRange(1, 512).Draw(t, "vCPUs")
		if old, most := bytesOf(t, f, domain, guest, vcpus),
			bytesOf(t, newest, domain, guest, vcpus); old > most {
			t.Fatalf("%d by %s, and %d by main", old, f.Version, most)
		}
	})
}

func bytesOf(t *rapid.T, f target.Formula, domain string, guest uint64, vcpus int) uint64 {
	overhead, err := f.Of(domain)
	if err != nil {
		t.Fatal(err)
	}
	bytes, err := overhead(guest, vcpus)
	if err != nil {
		t.Fatal(err)
	}
	return bytes
}

// anyFormula draws a formula and a domain.
func anyFormula(t *rapid.T) (f target.Formula, domain string) {
	var err error
	version := rapid.SampledFrom([]string{"0.54", "0.57", "0.58.2", "0.59", "1.0", "1.1", "1.4.1",
		"1.5", "1.5.3", "1.6.4", "1.7", "1.9", "main"})
	if f.Version, err = kubevirt.ParseVersion(version.Draw(t, "version")); err != nil {
		t.Fatal(err)
	}
	if f.Ratio, err = kubevirt.ParseRatio(
		rapid.SampledFrom([]string{"1", "1.0001", "1.5", "4.5"}).Draw(t, "ratio")); err != nil {
		t.Fatal(err)
	}
	if f.Check() != nil { // a version without ratio
		f.Ratio = kubevirt.Ratio{}
	}
	f.Guaranteed = rapid.Bool().Draw(t, "guaranteed")
	f.Extra = rapid.Int64Range(0, int64(gi)).Draw(t, "extra")
	some := func(text string) string {
		return strings.Repeat(text, rapid.IntRange(0, 1).Draw(t, text))
	}
	domain = "<domain type='kvm'>" + some("<cputune><vcpupin vcpu='0' cpuset='1'/></cputune>") +
		some("<launchSecurity type='sev-snp'/>") +
		"<devices>" + some("<graphics type='vnc'/>") + some("<tpm/>") +
		some("<hostdev mode='subsystem' type='pci'/>") + "</devices></domain>"
	return f, domain
}

// libvirt accepts the bandwidth, and the bandwidth is exact to the microsecond.
func TestSpreadIsPrecise(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		milli := rapid.Int64Range(1, 1<<30).Draw(t, "milli")
		vcpus := rapid.IntRange(1, 8192).Draw(t, "vcpus")
		b, err := target.Spread(milli, vcpus)
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
