package command

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"

	"github.com/mooring-vm/mooring/memlock/kubevirt"
	"github.com/mooring-vm/mooring/shim/resize/target"
)

func parseOverhead(t *testing.T, args string) *overheadFlags {
	t.Helper()
	var o overheadFlags
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	o.add(flags)
	if err := flags.Parse(strings.Fields(args)); err != nil {
		t.Fatal(err)
	}
	return &o
}

func TestFixedOverhead(t *testing.T) {
	for args, want := range map[string]uint64{
		"--overhead 1Gi": 1 << 30,
		"--overhead=0":   0,
	} {
		fixed, formula, err := parseOverhead(t, args).read()
		if err != nil || formula != nil {
			t.Errorf("%s: %+v, %v", args, formula, err)
			continue
		}
		if got, err := fixed(8<<30, 4); got != want || err != nil {
			t.Errorf("%s: %d, %v, want %d", args, got, err, want)
		}
	}
}

func TestOverheadByFormula(t *testing.T) {
	version, err := kubevirt.ParseVersion("1.7")
	if err != nil {
		t.Fatal(err)
	}
	ratio, err := kubevirt.ParseRatio("1.5")
	if err != nil {
		t.Fatal(err)
	}
	for args, want := range map[string]target.Formula{
		"": {
			Version: kubevirt.Main(),
		},
		"--overhead kubevirt": {
			Version: kubevirt.Main(),
		},
		"--overhead kubevirt:1.7 --overhead-ratio 1.5": {
			Version: version,
			Ratio:   ratio,
		},
		"--overhead kubevirt:v1.7.0 --overhead-guaranteed": {
			Version:    version,
			Guaranteed: true,
		},
		"--overhead=kubevirt:main --overhead-extra=110Mi --overhead-ratio 1": {
			Version: kubevirt.Main(),
			Extra:   110 << 20,
			Ratio:   parseRatio(t, "1"),
		},
	} {
		fixed, got, err := parseOverhead(t, args).read()
		if err != nil || fixed != nil {
			t.Errorf("%s: %v", args, err)
			continue
		}
		diff := cmp.Diff(&want, got, cmp.AllowUnexported(kubevirt.Version{}, kubevirt.Ratio{}))
		if diff != "" {
			t.Errorf("%s (-want +got)\n%s", args, diff)
		}
	}
}

// Without flags the overhead grows with the guest, and covers that of KubeVirt 1.5 to 1.9.
func TestDefaultOverhead(t *testing.T) {
	_, formula, err := parseOverhead(t, "").read()
	if err != nil || formula == nil {
		t.Fatalf("%+v, %v, want a formula", formula, err)
	}
	overhead, err := formula.Of(`<domain type='kvm'><memory unit='GiB'>64</memory>
		<os><type arch='x86_64'>hvm</type></os><devices><graphics type='vnc'/></devices></domain>`)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		guest uint64
		vcpus int
		least uint64
	}{{1 << 30, 1, 270 << 20}, {64 << 30, 16, 516 << 20}} {
		if got, err := overhead(c.guest, c.vcpus); err != nil || got < c.least {
			t.Errorf("overhead of %d with %d vCPUs: %d, %v, want %d or more", c.guest, c.vcpus,
				got, err, c.least)
		}
	}
}

func parseRatio(t *testing.T, text string) kubevirt.Ratio {
	t.Helper()
	ratio, err := kubevirt.ParseRatio(text)
	if err != nil {
		t.Fatal(err)
	}
	return ratio
}

func TestBadOverheads(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"--overhead lots", `--overhead: "lots": want a whole number of bytes`},
		{"--overhead KubeVirt", `or kubevirt or kubevirt:VERSION`},
		{"--overhead kubevirt:", `--overhead kubevirt:: KubeVirt version "": want 0.54 to`},
		{
			"--overhead kubevirt:2.0",
			`--overhead kubevirt:2.0: KubeVirt version "2.0" is not in the table: want 0.54 to`,
		},
		{
			"--overhead kubevirt:0.57 --overhead-ratio 1.5",
			`--overhead kubevirt:0.57: overhead of KubeVirt's launcher: KubeVirt 0.57.0 knows no ` +
				`overhead ratio`,
		},
		{
			"--overhead kubevirt --overhead-ratio 0.5",
			`--overhead-ratio: overhead ratio "0.5": want a number of at least 1`,
		},
		{
			"--overhead kubevirt --overhead-extra=-1",
			`--overhead-extra: "-1": want a whole number of bytes`,
		},
		{
			"--overhead kubevirt --overhead-extra=",
			`--overhead-extra: "": want a whole number of bytes`,
		},
		{
			"--overhead 256Mi --overhead-ratio 1.5",
			"--overhead-ratio 1.5: allowed with --overhead kubevirt only",
		},
		{
			"--overhead 0 --overhead-extra 1Mi",
			"--overhead-extra 1Mi: allowed with --overhead kubevirt only",
		},
		{
			"--overhead 1Gi --overhead-guaranteed",
			"--overhead-guaranteed true: allowed with --overhead kubevirt only",
		},
		{
			"--overhead kubevirt:1.7 --overhead-ratio lots",
			`--overhead-ratio: overhead ratio "lots"`,
		},
		{
			"--overhead kubevirt:1.7 --overhead-ratio 1e300000 ",
			`--overhead-ratio: overhead ratio "1e300000"`,
		},
	} {
		fixed, formula, err := parseOverhead(t, c.args).read()
		if err == nil || !strings.Contains(err.Error(), c.want) || fixed != nil || formula != nil {
			t.Errorf("%s: %v, want %s", c.args, err, c.want)
		}
	}
}

func TestRunFlagsAreDocumented(t *testing.T) {
	doc, err := os.ReadFile(filepath.Join("..", "..", "docs", "how-to", "resize-sidecar.md"))
	if err != nil {
		t.Fatal(err)
	}
	var f runFlags
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	f.add(flags)
	flags.VisitAll(func(flag *pflag.Flag) {
		if !strings.Contains(string(doc), "`--"+flag.Name) {
			t.Errorf("--%s is not documented", flag.Name)
		}
	})
}
