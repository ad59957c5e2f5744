package api

import (
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestParseLockable(t *testing.T) {
	for in, want := range map[string]Lockable{
		"unlimited": {Unlimited: true}, "0": {}, "1Gi": {Bytes: 1 << 30}, "1000": {Bytes: 1000},
	} {
		got, err := ParseLockable(in)
		if err != nil || got != want {
			t.Errorf("ParseLockable(%q) = %+v, %v, want %+v", in, got, err, want)
		}
	}
	for _, in := range hostileQuantities() {
		got, err := ParseLockable(in)
		checkRefused(t, in, got, err)
		if err != nil && !strings.Contains(err.Error(), `"unlimited"`) {
			t.Errorf("%q: %v: does not offer unlimited", in, err)
		}
	}
}

func FuzzParseLockable(f *testing.F) {
	for _, s := range append(hostileQuantities(), Unlimited, "4Gi") {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		l, err := ParseLockable(s)
		if err != nil {
			checkRefused(t, s, l, err)
			return
		}
		if l.Bytes < 0 || l.Unlimited && l.Bytes != 0 {
			t.Errorf("%q: got %+v", s, l)
		}
		if again, err := ParseLockable(l.String()); err != nil || again != l {
			t.Errorf("%q: got %+v, which prints as %q, which reads as %+v, %v", s, l, l, again, err)
		}
	})
}

func TestParseDevices(t *testing.T) {
	for in, want := range map[string]Devices{
		"vfio=1":                     {VFIO: 1},
		"nvme=3":                     {NVMe: 3},
		"vdpa=1024":                  {VDPA: MaxDevices},
		"vfio=2,vdpa=1,iommu":        {VFIO: 2, VDPA: 1, IOMMU: true},
		"iommu,nvme=1,vdpa=2,vfio=3": {VFIO: 3, VDPA: 2, NVMe: 1, IOMMU: true},
	} {
		got, err := ParseDevices(in)
		if err != nil || got != want {
			t.Errorf("ParseDevices(%q) = %+v, %v, want %+v", in, got, err, want)
		}
	}
}

// hostileDevices maps invalid lists of devices to a part of their error text.
func hostileDevices() map[string]string {
	return map[string]string{
		"": "unknown device", ",": "unknown device", "vfio=1,": "unknown device",
		",vfio=1":        "unknown device",
		"vfio=1,,vdpa=1": "unknown device", "vfio=1, vdpa=1": "unknown device",
		" vfio=1": "unknown device",
		"VFIO=1":  "unknown device", "sev": "unknown device", "usb=1": "unknown device",
		"vfio:1":        "unknown device",
		"vfio=1;vdpa=1": "takes a count", "vfio=1 ": "takes a count", "vfio": "takes a count",
		"vfio=":  "takes a count",
		"vfio=0": "takes a count", "vfio=-1": "takes a count", "vfio=+1": "takes a count",
		"vfio=01":  "takes a count",
		"vfio=1e3": "takes a count", "vfio=1.0": "takes a count", "vfio=1=1": "takes a count",
		"vfio=٣":    "takes a count",
		"vfio=1025": "between 1 and 1024", "vfio=99999999999999999999": "takes a count",
		"nvme=0x1":      "takes a count",
		"vfio=1,vfio=1": "twice", "vfio=1,iommu,iommu": "twice", "vfio=1,vdpa=1,vfio=2": "twice",
		"iommu": "there is none", "iommu=1": "takes no count", "vfio=1,iommu=": "takes no count",
		strings.Repeat("vfio=1,", 5000): "twice", "\xff": "unknown device",
	}
}

func TestParseDevicesRefuses(t *testing.T) {
	for in, why := range hostileDevices() {
		got, err := ParseDevices(in)
		checkRefused(t, in, got, err)
		if err != nil && !strings.Contains(err.Error(), why) {
			t.Errorf("ParseDevices(%.40q): %v: want %q in it", in, err, why)
		}
	}
}

func FuzzParseDevices(f *testing.F) {
	for in := range hostileDevices() {
		f.Add(in)
	}
	f.Add("vfio=2,vdpa=1,nvme=1,iommu")
	f.Fuzz(func(t *testing.T, s string) {
		d, err := ParseDevices(s)
		if err != nil {
			checkRefused(t, s, d, err)
			return
		}
		for _, n := range []int{d.VFIO, d.VDPA, d.NVMe} {
			if n < 0 || n > MaxDevices {
				t.Errorf("%q: got %+v", s, d)
			}
		}
		if again, err := ParseDevices(d.String()); err != nil || again != d || !d.Any() {
			t.Errorf("%q: got %+v, which prints as %q, which reads as %+v, %v", s, d, d, again, err)
		}
		if words := strings.Split(s, ","); len(words) !=
			len(slices.Compact(slices.Sorted(slices.Values(words)))) {
			t.Errorf("%q: takes a word twice", s)
		}
	})
}

func TestDevicesRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		count := rapid.IntRange(0, MaxDevices)
		want := Devices{count.Draw(t, "vfio"), count.Draw(t, "vdpa"), count.Draw(t, "nvme"),
			rapid.Bool().Draw(t, "iommu")}
		got, err := ParseDevices(want.String())
		if want.Any() && (err != nil || got != want) || !want.Any() && err == nil {
			t.Fatalf("%+v prints as %q, which reads as %+v, %v", want, want, got, err)
		}
	})
}

func TestParseCPUQuota(t *testing.T) {
	for in, want := range map[string]CPUQuota{
		"none": {None: true}, "1": {Percent: 1}, "150": {Percent: 150}, "150%": {Percent: 150},
		"819200%":      {Percent: MaxCPUPercent},
		"1200/2400MHz": {MHz: 1200, OfHost: 2400}, "3000/2400MHz": {MHz: 3000, OfHost: 2400},
		"1/100000MHz": {MHz: 1, OfHost: MaxMHz},
	} {
		got, err := ParseCPUQuota(in)
		if err != nil || got != want {
			t.Errorf("ParseCPUQuota(%q) = %+v, %v, want %+v", in, got, err, want)
		}
	}
	for _, in := range []string{
		"", "0", "0%", "-1", "-1%", "+150%", "1.5", "150.5%", "150%%", "%", "150 %", " 150", "1e3",
		"819201%", "None", "unlimited",
		"-0", "0150", "99999999999999999999", "١٥٠",
		"MHz", "1200MHz", "/2400MHz", "1200/MHz", "0/2400MHz", "1200/0MHz", "1200/100001MHz",
		"1200/2400", "1.2/2.4GHz", "1200/2400/1MHz", "1200/2400mhz",
	} {
		got, err := ParseCPUQuota(in)
		checkRefused(t, in, got, err)
	}
}

func TestParseCPUShares(t *testing.T) {
	for in, want := range map[string]int{"2": 2, "100": 100, "10000": MaxCPUShares} {
		got, err := parseCPUShares(in)
		if err != nil || got != want {
			t.Errorf("parseCPUShares(%q) = %d, %v, want %d", in, got, err, want)
		}
	}
	for _, in := range []string{"", "0", "1", "-2", "+2", "10001", "262144", "1.5", "1e3", "100%",
		"1k", " 100", "0100", "none", "99999999999999999999", "١٠٠"} {
		got, err := parseCPUShares(in)
		checkRefused(t, in, got, err)
	}
}

func FuzzParseCPUQuota(f *testing.F) {
	for _, s := range []string{"none", "150%", "150", "", "%", "-1", "1e30", "819200%",
		"99999999999999999999%", "1200/2400MHz", "0/0MHz"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		q, err := ParseCPUQuota(s)
		if err != nil {
			checkRefused(t, s, q, err)
			return
		}
		ways := 0
		for _, way := range []bool{q.None, q.Percent > 0, q.MHz > 0 && q.OfHost > 0} {
			if way {
				ways++
			}
		}
		if ways != 1 || q.Percent > MaxCPUPercent || max(q.MHz, q.OfHost) > MaxMHz {
			t.Errorf("%q: got %+v", s, q)
		}
		if again, err := ParseCPUQuota(q.String()); err != nil || again != q {
			t.Errorf("%q: got %+v, which prints as %q, which reads as %+v, %v", s, q, q, again, err)
		}
	})
}

func TestParseDuration(t *testing.T) {
	for in, want := range map[string]time.Duration{
		"1s": time.Second, "90s": 90 * time.Second, "1h30m": 90 * time.Minute,
		"1.5h": 90 * time.Minute, "1000ms": time.Second, "168h": MaxDuration,
	} {
		got, err := parseDuration(in)
		if err != nil || got != want {
			t.Errorf("parseDuration(%q) = %v, %v, want %v", in, got, err, want)
		}
	}
	for _, in := range []string{
		"", "0", "0s", "30", "-1s", "+1s", "1e3s", "1 s", "1s ", "500ms", "1.5s", "168h1s",
		"9999999h", "1d", "1S", "1000000µs", "1us",
		"1000000000ns", "٣s", "forever", ".", "h", "1h-30m",
	} {
		got, err := parseDuration(in)
		checkRefused(t, in, got, err)
	}
}

func FuzzParseDuration(f *testing.F) {
	for _, s := range []string{"90s", "1h30m", "1.5h", "", "-1s", "+1s", "168h1s", "1e30s",
		"9999999999999999999h"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		d, err := parseDuration(s)
		if err != nil {
			checkRefused(t, s, d, err)
			return
		}
		if d < time.Second || d > MaxDuration || d%time.Second != 0 {
			t.Errorf("%q: got %v", s, d)
		}
		if again, err := parseDuration(d.String()); err != nil || again != d {
			t.Errorf("%q: got %v, which reads as %v, %v", s, d, again, err)
		}
	})
}

func TestParseDomain(t *testing.T) {
	for _, in := range []string{
		"vm", "My VM", "vm-1.example", "6a3f8f0e-6f3c-4f0a-9d6e-0c5b6b0b2f11", "größe",
		strings.Repeat("x", maxDomainName), "...",
	} {
		if got, err := parseDomain(in); err != nil || got != in {
			t.Errorf("parseDomain(%q) = %q, %v", in, got, err)
		}
	}
	for _, in := range []string{
		"", " ", " vm", "vm ", "a/b", "../vm", ".", "..", "vm\n", "v\x00m", "v\x1bm", "v\u202em",
		"\xff", strings.Repeat("x", maxDomainName+1),
	} {
		got, err := parseDomain(in)
		checkRefused(t, in, got, err)
	}
}

func TestParseVCPUs(t *testing.T) {
	for in, want := range map[string]int{"1": 1, "64": 64, "8192": MaxVCPUs} {
		if got, err := parseVCPUs(in); err != nil || got != want {
			t.Errorf("parseVCPUs(%q) = %d, %v", in, got, err)
		}
	}
	for _, in := range []string{"", "0", "-1", "+1", "01", "1.5", "2 ", "8193", "1e1",
		"99999999999999999999", "four"} {
		got, err := parseVCPUs(in)
		checkRefused(t, in, got, err)
	}
}
