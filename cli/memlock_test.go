package cli

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const (
	vdpaXML = `<domain type='kvm'><memory unit='GiB'>1</memory><devices>
		<interface type='vdpa'><source dev='/dev/vhost-vdpa-0'/></interface><interface type='vdpa'><source dev='/dev/vhost-vdpa-1'/></interface>
		</devices></domain>`
	lockedXML = `<domain type='kvm'><memory ` +
		`unit='GiB'>1</memory><memoryBacking><locked/></memoryBacking></domain>`
	growingXML = `<domain type='kvm'><memory unit='GiB'>4</memory>` +
		`<maxMemory slots='16' unit='GiB'>64</maxMemory><devices><interface type='vdpa'>` +
		`<source dev='/dev/vhost-vdpa-0'/></interface></devices></domain>`
	plainXML = `<domain type='kvm'><memory unit='GiB'>1</memory></domain>`

	plainVMI = `{apiVersion: kubevirt.io/v1, kind: VirtualMachineInstance, metadata: {name: a}, ` +
		`spec: {domain: {devices: {}, memory: {guest: 1Gi}}}}`
	gpuVMI = `
apiVersion: kubevirt.io/v1
kind: VirtualMachineInstance
metadata: {name: a}
spec:
  domain:
    memory: {guest: 1Gi, maxGuest: 4Gi}
    resources: {requests: {memory: 1Gi}}
    devices:
      gpus: [{name: gpu, deviceName: example.org/gpu}]
`
)

// writeInput writes a file and returns its path.
func writeInput(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func runMemlock(t *testing.T, args ...string) result {
	t.Helper()
	var out, errOut bytes.Buffer
	code := testProgram(&out, &errOut).Run(t.Context(), append([]string{"memlock"}, args...))
	return result{code, out.String(), errOut.String()}
}

func TestMemlockJSON(t *testing.T) {
	number := func(n int64) *int64 { return &n }
	for name, c := range map[string]struct {
		args      []string
		want      *int64
		unlimited bool
	}{
		"two vDPA": {[]string{"--domain", writeInput(t, "d.xml", vdpaXML)},
			number(3 << 30), false},
		"locked": {[]string{"--domain", writeInput(t, "d.xml", lockedXML)},
			number(9007199254740991), true},
		"room for more": {[]string{"--domain", writeInput(t, "d.xml", growingXML)},
			number(65 << 30), false},
		"no device": {[]string{"--domain", writeInput(t, "d.xml", plainXML)}, nil, false},
		"plain VMI": {[]string{"--vmi", writeInput(t, "v.yaml", plainVMI), "--kubevirt-version",
			"v1.7.0"}, nil, false},
		"GPU": {[]string{"--vmi", writeInput(t, "v.yaml", gpuVMI), "--kubevirt-version",
			"v1.7.0"}, number(270<<20 + 1<<30 + 4<<30 + 704), false},
		"libvirt's": {[]string{"--vmi", writeInput(t, "v.yaml", plainVMI), "--kubevirt-version",
			"1.9", "--domain", writeInput(t, "d.xml", vdpaXML)}, number(3 << 30), false},
		"the VMI's": {[]string{"--vmi", writeInput(t, "v.yaml", gpuVMI), "--kubevirt-version",
			"1.9", "--domain", writeInput(t, "d.xml", vdpaXML)},
			number(270<<20 + 1<<30 + 4<<30 + 704), false},
		"with ratio": {[]string{"--vmi", writeInput(t, "v.yaml", gpuVMI), "--kubevirt-version",
			"1.7", "--ratio", "2"}, number(2*(270<<20+1<<30) + 656 + 4<<30 + 704), false},
	} {
		got := runMemlock(t, append(c.args, "-o", "json")...)
		var out memlockJSON
		if err := json.Unmarshal([]byte(got.out), &out); err != nil || got.code != ExitOK ||
			got.errOut != "" {
			t.Errorf("%s: %v, %+v", name, err, got)
			continue
		}
		if diff := cmp.Diff(c.want, out.LimitBytes); diff != "" || out.Unlimited != c.unlimited ||
			out.Reason == "" {
			t.Errorf("%s: %s\n%s", name, diff, got.out)
		}
		var sum int64
		for _, term := range out.Terms {
			sum += term.Bytes
		}
		if out.Terms == nil || !c.unlimited && c.want != nil && sum != *c.want {
			t.Errorf("%s: the terms make %d:\n%s", name, sum, got.out)
		}
	}
}

// KubeVirt's own limits stand beside the VM's. Versions up to 1.7 set another one at the start.
func TestMemlockOfKubeVirtItself(t *testing.T) {
	const overhead = 270<<20 + 1<<30
	file := writeInput(t, "v.yaml", gpuVMI)
	for version, want := range map[string]*ownLocksJSON{
		"1.7":  {StartBytes: overhead + 1<<30 + 176, RunningBytes: overhead + 4<<30 + 704},
		"1.9":  {StartBytes: overhead + 4<<30 + 704, RunningBytes: overhead + 4<<30 + 704},
		"main": {StartBytes: libvirtUnlimited, RunningBytes: libvirtUnlimited},
	} {
		got := runMemlock(t, "--vmi", file, "--kubevirt-version", version, "-o", "json")
		var out memlockJSON
		if err := json.Unmarshal([]byte(got.out), &out); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, out.KubeVirt); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", version, diff)
		}
	}
	got := runMemlock(t, "--vmi", writeInput(t, "v.yaml", plainVMI), "--kubevirt-version", "1.9",
		"-o", "json")
	if !strings.Contains(got.out, `"kubevirt": null`) {
		t.Errorf("KubeVirt sets no limit: %+v", got)
	}
}

func TestMemlockText(t *testing.T) {
	for name, text := range map[string]string{"memlock-vdpa": vdpaXML, "memlock-locked": lockedXML,
		"memlock-none": plainXML} {
		got := runMemlock(t, "--domain", writeInput(t, "d.xml", text))
		if got.code != ExitOK || got.errOut != "" {
			t.Errorf("%s: %+v", name, got)
		}
		golden(t, name, got.out)
	}
	growing := runMemlock(t, "--domain", writeInput(t, "d.xml", growingXML))
	if !strings.Contains(growing.out,
		"full <maxMemory>, and the domain needs 5Gi (5368709120 bytes) now") {
		t.Errorf("no word about the domain's growth: %+v", growing)
	}
	got := runMemlock(t, "--vmi", writeInput(t, "v.yaml", gpuVMI), "--kubevirt-version", "1.7",
		"--ratio", "1.5")
	golden(t, "memlock-vmi", got.out)
}

func TestMemlockReadsStandardInput(t *testing.T) {
	var out, errOut bytes.Buffer
	chosen := formatJSON
	o := memlockOptions{domain: "-", output: &chosen}
	if err := testProgram(&out, &errOut).memlock(strings.NewReader(vdpaXML), o); err != nil ||
		!strings.Contains(out.String(), `"limitBytes": 3221225472`) {
		t.Errorf("%v\n%s", err, out.String())
	}
}

func TestMemlockErrors(t *testing.T) {
	xml, vmi := writeInput(t, "d.xml", "<domain/>"), writeInput(t, "v.yaml", "kind: Pod")
	large := writeInput(t, "large.xml", strings.Repeat(" ", maxInput+1))
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{nil, ExitUsage, "want --domain FILE, --vmi FILE, or both"},
		{[]string{"x.xml"}, ExitUsage, "files are named by --domain and --vmi"},
		{[]string{"--vmi", vmi}, ExitUsage, "--kubevirt-version is missing"},
		{[]string{"--domain", xml, "--kubevirt-version", "1.7"}, ExitUsage,
			`--kubevirt-version "1.7": want it with --vmi only`},
		{[]string{"--domain", xml, "--ratio", "2"}, ExitUsage,
			`--ratio "2": want it with --vmi only`},
		{[]string{"--vmi", vmi, "--kubevirt-version", "1.7", "--nvlink2"}, ExitUsage,
			"--nvlink2: want it with --domain only"},
		{[]string{"--vmi", "-", "--domain", "-", "--kubevirt-version", "1.7"}, ExitUsage,
			"only one of them may be -"},
		{[]string{"--vmi", vmi, "--kubevirt-version", "0.53"}, ExitUsage,
			"--kubevirt-version: KubeVirt version \"0.53\""},
		{[]string{"--vmi", vmi, "--kubevirt-version", "1.7", "--ratio", "0"}, ExitUsage,
			`--ratio: overhead ratio "0"`},
		{[]string{"--domain", filepath.Join(t.TempDir(), "none.xml")}, ExitFailure,
			"none.xml: no such file"},
		{[]string{"--domain", xml}, ExitFailure, "d.xml: domain XML: memory: there is none"},
		{[]string{"--domain", large}, ExitFailure, "large.xml: larger than 16 MiB"},
		{[]string{"--vmi", vmi, "--kubevirt-version", "1.7"}, ExitFailure, "v.yaml: "},
	} {
		got := runMemlock(t, c.args...)
		if got.code != c.code || !strings.Contains(got.errOut, c.want) || got.out != "" {
			t.Errorf("%v: got %+v, want exit code %d and %q", c.args, got, c.code, c.want)
		}
	}
}
