package target_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mooring-vm/mooring/shim/resize/target"
	"github.com/mooring-vm/mooring/shim/virt"
)

func TestSpread(t *testing.T) {
	for _, c := range []struct {
		milli         int64
		vcpus         int
		period, quota int // 0: unlimited
	}{
		{1000, 1, 0, 0},
		{1500, 1, 0, 0},
		{2000, 2, 0, 0},
		{1500, 2, 100000, 75000},
		{1000, 3, 100002, 33334},
		{1, 1, 1000000, 1000},
		{5, 1, 200000, 1000},
		{2999, 3, 102000, 101966},
	} {
		want := target.Bandwidth{Period: time.Duration(c.period) * time.Microsecond,
			Quota: time.Duration(c.quota) * time.Microsecond}
		if c.quota == 0 {
			want = target.Bandwidth{Period: 100 * time.Millisecond, Quota: virt.Unlimited}
		}
		got, err := target.Spread(c.milli, c.vcpus)
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%d for %d vCPUs: %v (-want +got)\n%s", c.milli, c.vcpus, err, diff)
		}
	}
	for _, c := range []struct {
		milli int64
		vcpus int
	}{{0, 1}, {1, 0}, {-1, 1}, {1, 2}} {
		if got, err := target.Spread(c.milli, c.vcpus); err == nil {
			t.Errorf("%d for %d vCPUs: got %+v", c.milli, c.vcpus, got)
		}
	}
}

// CloudStack rounds the ratio to two digits (half down) and takes at most 1. Each case has its
// result beside the package's.
func TestFrequency(t *testing.T) {
	for _, c := range []struct {
		name          string
		vm, host      int64
		period, quota int    // of this package; 0: unlimited
		err           string // of this package
		theirs        string // CloudStack's result
	}{
		{"half", 1000, 2000, 100000, 50000, "", "10000/5000"},
		{"a third", 1000, 3000, 100002, 33334, "", "10000/3300: a hundredth of the third less"},
		{"small", 50, 3000, 100020, 1667, "", "50000/1000 for 0.02: a fifth more"},
		{"rounds to zero", 10, 3000, 300000, 1000, "",
			"1000000/1000, which is 0.1 % and not 0.33 %"},
		{"below what libvirt takes", 2, 3000, 0, 0, "less than 0.1 % of a CPU",
			"1000000/1000: half as much again, and silent"},
		{"a slower host", 3000, 2000, 0, 0, "", "10000/10000: a limit where there is none"},
		{"as fast", 2000, 2000, 0, 0, "", "10000/10000"},
		{"no host frequency", 1000, 0, 0, 0, "1000 MHz on a host with 0 MHz: want both to be known",
			"NullPointerException when memory and vCPUs are changed already"},
		{"no VM frequency", 0, 2000, 0, 0, "want both to be known", "1000000/1000: 0.1 %"},
		{"prime to each other", 2599, 3001, 102034, 88366, "", "10000/8700"},
	} {
		got, err := target.Frequency(c.vm, c.host)
		if c.err != "" {
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%s: got %+v, %v, want %q; CloudStack: %s", c.name, got, err,
					c.err, c.theirs)
			}
			continue
		}
		want := target.Bandwidth{Period: time.Duration(c.period) * time.Microsecond,
			Quota: time.Duration(c.quota) * time.Microsecond}
		if c.quota == 0 {
			want = target.Bandwidth{Period: 100 * time.Millisecond, Quota: virt.Unlimited}
		}
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got; CloudStack: %s)\n%s", c.name, err, c.theirs, diff)
		}
	}
}
