package kubevirt

import (
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mooring-vm/mooring/memlock"
)

// everything has each part that some version counts.
func everything() VM {
	return VM{
		Memory: Memory{Request: gi, Limit: gi, Guest: gi, AddedOverhead: 300 * mi,
			LockRequired: true},
		CPU: CPU{Sockets: 2, Cores: 2, RequestMilli: 4000, LimitMilli: 4000,
			Dedicated: true, Realtime: true},
		Architecture: "arm64", TPM: EnabledTPM, HostDevices: 1, GPUs: 2, SRIOV: 3, Passt: 2,
		SEV: true, SNP: true,
		DownwardMetrics: true, LivenessExec: true, ReadinessExec: true,
	}
}

func mustVersion(t *testing.T, s string) Version {
	t.Helper()
	v, err := ParseVersion(s)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func mustRatio(t *testing.T, s string) Ratio {
	t.Helper()
	r, err := ParseRatio(s)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// Terms after the ratio are not multiplied by it.
func TestOverheadTerms(t *testing.T) {
	common := []memlock.Term{
		{Name: "page tables", Bytes: 2097152}, {Name: "virt-launcher-monitor", Bytes: 25 * mi},
		{Name: "virt-launcher", Bytes: 100 * mi},
	}
	devices := []memlock.Term{
		{Name: "arm64 flash", Bytes: 128 * mi}, {Name: "VFIO devices", Bytes: gi},
		{Name: "downward metrics", Bytes: mi},
		{Name: "liveness probe", Bytes: 10 * mi}, {Name: "readiness probe", Bytes: 10 * mi},
		{Name: "probe program", Bytes: 100 * mi},
		{Name: "SEV", Bytes: 256 * mi}, {Name: "TPM", Bytes: 53 * mi},
	}
	for version, want := range map[string][]memlock.Term{
		"1.2.0": append(append(append(common,
			memlock.Term{Name: "virtlogd", Bytes: 20 * mi}, memlock.Term{Name: "virtqemud",
				Bytes: 35 * mi}, memlock.Term{Name: "qemu", Bytes: 30 * mi},
			memlock.Term{Name: "4 vCPUs", Bytes: 32 * mi}, memlock.Term{Name: "I/O thread",
				Bytes: 8 * mi}, memlock.Term{Name: "graphics", Bytes: 16 * mi}),
			devices...), memlock.Term{Name: "2 passt interfaces", Bytes: 1600 * mi},
			memlock.Term{Name: "ratio 1.5", Bytes: 1808794000},
			memlock.Term{Name: "dedicated CPUs", Bytes: 100 * mi}),
		"1.8.0": append(append(append(common,
			memlock.Term{Name: "virtlogd", Bytes: 25 * mi}, memlock.Term{Name: "virtqemud",
				Bytes: 40 * mi}, memlock.Term{Name: "qemu", Bytes: 30 * mi},
			memlock.Term{Name: "4 vCPUs", Bytes: 32 * mi}, memlock.Term{Name: "I/O thread",
				Bytes: 8 * mi}, memlock.Term{Name: "graphics", Bytes: 32 * mi}),
			devices...), memlock.Term{Name: "dedicated CPUs", Bytes: 100 * mi},
			memlock.Term{Name: "reserved overhead", Bytes: 300 * mi},
			memlock.Term{Name: "ratio 1.5", Bytes: 1193279000}),
	} {
		got, total, err := Overhead(everything(), mustVersion(t, version), mustRatio(t, "1.5"))
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got)\n%s", version, err, diff)
		}
		if sum, err := memlock.Total(got); err != nil || sum != total {
			t.Errorf("%s: terms of %d make %d, %v", version, sum, total, err)
		}
	}
}

// The oldest version does not know some of these terms.
func TestOverheadOfOldVersion(t *testing.T) {
	got, _, err := Overhead(everything(), mustVersion(t, "0.54"), Ratio{})
	if err != nil {
		t.Fatal(err)
	}
	for _, term := range got {
		switch {
		case term.Name == "virtqemud", term.Name == "dedicated CPUs",
			term.Name == "reserved overhead", strings.Contains(term.Name, "passt"):
			t.Errorf("0.54 counts %v", term)
		}
	}
	if got[4] != (memlock.Term{Name: "libvirtd", Bytes: 33 * mi}) {
		t.Errorf("terms are %v", got)
	}
}

func TestOverheadErrors(t *testing.T) {
	for _, c := range []struct {
		vm             VM
		version, ratio string
		want           string
	}{
		{VM{}, "0.54", "1.5", "KubeVirt 0.54.0 knows no overhead ratio, so 1.5 has no effect " +
			"there: want none, or KubeVirt 0.58.2, 0.59.1 or newer"},
		{VM{}, "0.59.0", "1.5", "0.59.0 knows no overhead ratio"},
		{VM{}, "1.7", "1e30", "overhead ratio 1e30"},
		{VM{Memory: Memory{AddedOverhead: math.MaxInt64}}, "1.8", "", "more than an int64 holds"},
		{VM{Memory: Memory{AddedOverhead: math.MaxInt64 - 300*mi}}, "1.8", "1.5",
			"more for ratio 1.5 is more than an int64 holds"},
		{VM{Memory: Memory{Request: -1}}, "1.8", "", "domain.resources.requests.memory: -1: want " +
			"no less than 0"},
		{VM{Memory: Memory{Guest: 2, MaxGuest: 1}}, "1.8", "",
			`domain.memory.guest: "2": want at most memory.maxGuest, which is 1`},
		{VM{GPUs: -2}, "1.8", "", "domain.devices.gpus: -2"},
		{VM{Architecture: "x86_64"}, "1.8", "",
			`architecture: "x86_64": want amd64, arm64, s390x or ppc64le`},
		{VM{CPU: CPU{Sockets: 65536, Cores: 65536}}, "1.8", "",
			"domain.cpu: more than 4294967295 vCPUs"},
		{VM{CPU: CPU{Sockets: math.MaxUint32, Cores: math.MaxUint32, Threads: math.MaxUint32}},
			"1.8", "", "domain.cpu: more than"},
		{VM{CPU: CPU{LimitMilli: math.MaxInt64}}, "1.8", "", "domain.cpu: more than"},
	} {
		var r Ratio
		if c.ratio != "" {
			r = mustRatio(t, c.ratio)
		}
		terms, total, err := Overhead(c.vm, mustVersion(t, c.version), r)
		if err == nil || !strings.Contains(err.Error(), c.want) || terms != nil || total != 0 {
			t.Errorf("%+v: %v, %d, %v, want %s", c.vm, terms, total, err, c.want)
		}
	}
	if _, _, err := Overhead(VM{}, Version{}, Ratio{}); err == nil {
		t.Error("no version is no error")
	}
}

// The largest valid amounts do not overflow in between.
func TestOverheadOfVeryMuch(t *testing.T) {
	vm := VM{Memory: Memory{Request: math.MaxInt64}, CPU: CPU{Sockets: math.MaxUint32}}
	got, total, err := Overhead(vm, mustVersion(t, "1.7"), Ratio{})
	if err != nil || got[0].Bytes != 18014398509481984 || total != 18014398509481984+228*mi+32*mi+
		math.MaxUint32*8*mi {
		t.Errorf("%v, %d, %v", got, total, err)
	}
}
