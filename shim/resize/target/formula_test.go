package target_test

import (
	"strings"
	"testing"

	"github.com/mooring-vm/mooring/memlock/kubevirt"
	"github.com/mooring-vm/mooring/shim/resize/target"
)

func formula(t testing.TB, version, ratio string) target.Formula {
	t.Helper()
	var f target.Formula
	var err error
	if f.Version, err = kubevirt.ParseVersion(version); err != nil {
		t.Fatal(err)
	}
	if ratio != "" {
		if f.Ratio, err = kubevirt.ParseRatio(ratio); err != nil {
			t.Fatal(err)
		}
	}
	return f
}

// A memory limit that KubeVirt computes for a guest fits exactly this guest. The limits come from
// KubeVirt's code, for VMs with a smaller memory request or without one.
func TestKubeVirtLimits(t *testing.T) {
	const part = 2730 * mi // of 4Gi
	for _, c := range []struct {
		version, ratio string
		vcpus          int
		request, guest uint64
		overhead       uint64
	}{
		{"0.54", "", 2, part, 4 * gi, 236277761},
		{"1.4", "", 1, 682 * mi, gi, 255152128},
		{"1.4", "1.5", 1, 682 * mi, gi, 382728128},
		{"1.6", "", 2, part, 4 * gi, 294998017},
		{"1.6", "1.5", 2, part, 4 * gi, 442497017},
		{"1.6", "4.5", 2, part, 4 * gi, 1327494017},
		{"1.8", "", 1, 0, 2 * gi, 281018368},
		{"1.8", "1.5", 1, 0, 2 * gi, 421527368},
	} {
		f := formula(t, c.version, c.ratio)
		vm := kubevirt.VM{Memory: kubevirt.Memory{Request: int64(c.request), Guest: int64(c.guest)}}
		at := guest
		at.VCPUs = c.vcpus
		got, err := target.Compute(launcher(c.guest+c.overhead, 0), at,
			target.KubeVirt(vm, f.Version, f.Ratio))
		if err != nil || got.GuestMemory() != c.guest || got.Overhead != c.overhead {
			t.Errorf("KubeVirt %s, ratio %q: %+v, %v, want a guest of %d and %d beside it",
				c.version, c.ratio, got, err, c.guest, c.overhead)
		}
		less, err := target.Compute(launcher(c.guest+c.overhead-1, 0), at,
			target.KubeVirt(vm, f.Version, f.Ratio))
		if err != nil || less.GuestMemory() != c.guest-guest.Block {
			t.Errorf("KubeVirt %s, ratio %q, a byte less: %+v, %v, want a block less", c.version,
				c.ratio, less, err)
		}
	}
}

const plain = "<domain type='kvm'><os><type " +
	"arch='x86_64'>hvm</type></os><devices>%</devices></domain>"

// The smallest overhead is 220 MiB for processes (240 on main), 8 MiB each for an I/O thread and a
// vCPU, and page tables of 2 MiB for 1 GiB.
func TestFormulaReadsTheDomain(t *testing.T) {
	devices := func(text string) string { return strings.Replace(plain, "%", text, 1) }
	head := func(text string) string {
		return strings.Replace(devices(""), "<devices>", text+"<devices>", 1)
	}
	for name, c := range map[string]struct {
		domain  string
		version string
		want    uint64 // MiB
	}{
		"no devices": {"<domain type='kvm'/>", "1.7", 238},
		"little":     {devices(""), "1.7", 238},
		"on main":    {devices(""), "main", 258},
		"graphics":   {devices("<graphics type='vnc'/>"), "1.7", 238 + 32},
		"graphics before 1.6": {devices("<graphics type='vnc'/><graphics type='spice'/>"),
			"1.5", 238 + 16},
		"TPM": {devices("<tpm model='tpm-tis'><backend type='emulator' " +
			"version='2.0'/></tpm>"), "1.7", 238 + 53},
		"a device": {devices("<hostdev mode='subsystem' type='pci'/>"), "1.7", 238 + 1024},
		"two devices": {devices("<hostdev mode='subsystem' type='mdev' " +
			"model='vfio-pci'/><hostdev mode='subsystem' type='usb'/>"), "1.7", 238 + 1024},
		"a device as interface": {devices("<interface type='hostdev'><source><address type='pci' " +
			"bus='0x01'/></source></interface>" +
			"<interface type='ethernet'/>"), "1.7", 238 + 1024},
		"other interfaces": {
			devices("<interface type='vdpa'><source dev='/dev/vhost-vdpa-0'/></interface>"),
			"1.7", 238},
		"metrics": {
			devices("<disk type='file'><source " +
				"file='/var/run/kubevirt-private/downwardapi-disks/vhostmd0'/></disk>" +
				"<disk type='file'><source file='/disk.img'/></disk><disk type='block'><source " +
				"dev='/dev/vhostmd0'/></disk>"), "1.7", 239},
		"SEV":                 {head("<launchSecurity type='sev'/>"), "1.7", 238 + 256},
		"SNP":                 {head("<launchSecurity type='sev-snp'/>"), "1.7", 238 + 256},
		"SNP, unknown before": {head("<launchSecurity type='sev-snp'/>"), "1.6", 238},
		"dedicated CPUs": {head("<cputune><vcpupin vcpu='0' cpuset='3'/></cputune>"),
			"1.7", 238 + 100},
		"pinned emulator": {head("<cputune><emulatorpin cpuset='3'/></cputune>"), "1.7", 238},
		"arm64":           {strings.Replace(devices(""), "x86_64", "aarch64", 1), "1.7", 238 + 128},
	} {
		f := formula(t, c.version, "")
		overhead, err := f.Of(c.domain)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for vcpus := 1; vcpus < 3; vcpus++ {
			got, err := overhead(gi, vcpus)
			if most := (c.want + 8*uint64(vcpus-1)) * mi; err != nil || got > most+kib ||
				got < most {
				t.Errorf("%s: %d for %d vCPUs, %v, want %d", name, got, vcpus, err, most)
			}
		}
	}
}

// kib is more than the rounding of page tables to thousands of bytes.
const kib = 1 << 10

func TestFormulaOptions(t *testing.T) {
	domain := strings.Replace(plain, "%", "", 1)
	for name, c := range map[string]struct {
		change func(*target.Formula)
		want   uint64 // MiB
	}{
		"Guaranteed": {func(f *target.Formula) { f.Guaranteed = true }, 338},
		"more":       {func(f *target.Formula) { f.Extra = int64(110 * mi) }, 348},
		"half as much again": {func(f *target.Formula) {
			f.Ratio = formula(t, "1.7", "1.5").Ratio
		}, 357},
		"more, without ratio": {func(f *target.Formula) {
			f.Ratio, f.Extra = formula(t, "1.7", "1.5").Ratio, int64(mi)
		}, 358},
		"older, without ratio": {func(f *target.Formula) {
			*f = formula(t, "1.4", "1.5")
			f.Guaranteed = true
		}, 442},
	} {
		f := formula(t, "1.7", "")
		c.change(&f)
		overhead, err := f.Of(domain)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got, err := overhead(gi, 1); err != nil || got > c.want*mi+2*kib || got < c.want*mi-kib {
			t.Errorf("%s: %d, %v, want %d", name, got, err, c.want*mi)
		}
	}
}

func TestFormulaErrors(t *testing.T) {
	f := formula(t, "1.7", "")
	for text, want := range map[string]string{
		"":               "domain XML: EOF",
		"<network/>":     "domain XML: expected element type <domain>",
		"<domain><os>":   "domain XML: XML syntax error",
		"no XML at all.": "domain XML: EOF",
	} {
		if _, err := f.Of(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
	overhead, err := f.Of("<domain><os><type arch='sparc'>hvm</type></os></domain>")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := overhead(gi, 1); err == nil ||
		!strings.Contains(err.Error(), `architecture: "sparc"`) {
		t.Errorf("an architecture without KubeVirt: %v", err)
	}
	old := formula(t, "0.57", "1.5")
	f.Extra = -1
	for _, bad := range []target.Formula{{}, old, f} {
		if _, err := bad.Of("<domain/>"); err == nil || bad.Check() == nil {
			t.Errorf("%+v: taken, and %v", bad, err)
		}
	}
}

// A larger guest never has less overhead, with any domain. The search in fit relies on it.
func FuzzFormula(f *testing.F) {
	for _, domain := range []string{
		"<domain/>", plain, "<domain><devices><graphics/><hostdev/><interface " +
			"type='hostdev'/><disk><source file='/vhostmd0'/></disk></devices></domain>",
		"<domain><cputune><vcpupin/></cputune><launchSecurity type='sev'/><os><type " +
			"arch='s390x'/></os></domain>",
	} {
		f.Add(domain, uint64(gi), uint64(mi), 2)
	}
	formula := formula(f, "1.7", "1.5")
	f.Fuzz(func(t *testing.T, domain string, guest, more uint64, vcpus int) {
		overhead, err := formula.Of(domain)
		if err != nil || guest+more < guest {
			return
		}
		low, err := overhead(guest, vcpus)
		if err != nil {
			return
		}
		if high, err := overhead(guest+more, vcpus); err == nil && high < low {
			t.Errorf("%d beside %d bytes, and %d beside %d more", low, guest, high, more)
		}
	})
}
