package cli

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/mooring-vm/mooring/shim/headroom"
)

const growableXML = `<domain type='kvm'>
  <name>db</name>
  <memory unit='GiB'>1</memory>
  <vcpu>2</vcpu>
  <os><type arch='x86_64' machine='q35'>hvm</type></os>
  <features><acpi/></features>
  <devices>
    <!-- none yet -->
  </devices>
</domain>
`

func runPrepare(t *testing.T, in string, args ...string) result {
	t.Helper()
	var out, errOut bytes.Buffer
	program := testProgram(&out, &errOut)
	program.In = strings.NewReader(in)
	code := program.Run(t.Context(), append([]string{"domain", "prepare"}, args...))
	return result{code, out.String(), errOut.String()}
}

func TestDomainPrepare(t *testing.T) {
	capacity := []string{"--memory-capacity", "4096", "--cpu-capacity", "8"}
	for name, args := range map[string][]string{
		"domain-virtio-mem": capacity,
		"domain-dimm":       append(capacity, "--memory-device", "dimm", "--memory-slots", "4"),
	} {
		got := runPrepare(t, "", append(args, writeInput(t, "d.xml", growableXML))...)
		if got.code != ExitOK {
			t.Errorf("%s: %+v", name, got)
		}
		golden(t, name, got.out+got.errOut)
		for _, again := range [][]string{args, append(args, "-")} {
			if got := runPrepare(t, got.out, again...); got.code != ExitOK || !strings.Contains(got.errOut, "vCPUs: kept at 2 of 8") || got.out == "" {
				t.Errorf("%s again: %+v", name, got)
			}
		}
		if again := runPrepare(t, got.out, args...); again.out != got.out {
			t.Errorf("%s: not the same again:\n%s", name, again.out)
		}
	}
}

func TestDomainPrepareHelp(t *testing.T) {
	golden(t, "help-domain-prepare", runPrepare(t, "", "--help").out)
}

// Without capacities they are the machine's.
func TestDomainPrepareForThisMachine(t *testing.T) {
	var out, errOut bytes.Buffer
	machine := fstest.MapFS{
		"proc/meminfo":                  {Data: []byte("MemTotal: 8388608 kB\n")},
		"sys/devices/system/cpu/online": {Data: []byte("0-15\n")},
	}
	err := testProgram(&out, &errOut).domainPrepare(strings.NewReader(growableXML), machine, headroom.Options{Memory: -1}, stdin)
	if err != nil || !strings.Contains(errOut.String(), "up to 16\n") || !strings.Contains(errOut.String(), "up to 8192 MiB") {
		t.Errorf("%v\n%s", err, errOut.String())
	}
	err = testProgram(&out, &errOut).domainPrepare(strings.NewReader(growableXML), fstest.MapFS{}, headroom.Options{}, stdin)
	if err == nil || !strings.Contains(err.Error(), "the host's memory: ") || !strings.Contains(err.Error(), "want --memory-capacity") {
		t.Errorf("of a machine that tells nothing: %v", err)
	}
}

func TestDomainPrepareErrors(t *testing.T) {
	capacity := []string{"--memory-capacity=4096", "--cpu-capacity=8"}
	sev := strings.Replace(growableXML, "<devices>", "<launchSecurity type='sev'/><devices>", 1)
	for _, c := range []struct {
		in   string
		args []string
		code int
		want string
	}{
		{"", []string{"a.xml", "b.xml"}, ExitUsage, "mooring domain prepare: got 2 arguments, want at most one FILE"},
		{"", []string{"--memory-capacity", "4Gi"}, ExitUsage, `"4Gi" for "--memory-capacity"`},
		{"", append(capacity, "--memory-device", "ram"), ExitUsage, `memory device "ram": want virtio-mem or dimm`},
		{"", append(capacity, "--memory-slots", "300"), ExitUsage, "memory slots 300: want 1 to 256"},
		{"", append(capacity, "--memory-block", "3"), ExitUsage, "memory block of 3 MiB"},
		{"", append(capacity, filepath.Join(t.TempDir(), "none.xml")), ExitFailure, "none.xml: no such file"},
		{"", capacity, ExitFailure, "standard input: domain XML: there is none"},
		{sev, capacity, ExitFailure, "refused: launchSecurity: "},
		{sev, capacity, ExitFailure, "error: standard input: the domain can get no headroom\n"},
		{strings.Replace(sev, "'q35'", "'\x7f&#x9b;'", 1), capacity, ExitFailure, "refused: os/type machine "},
	} {
		got := runPrepare(t, c.in, c.args...)
		if got.code != c.code || !strings.Contains(got.errOut, c.want) || got.out != "" {
			t.Errorf("%v: got %+v, want exit code %d and %q", c.args, got, c.code, c.want)
		}
	}
	got := runDomain(t)
	if got.code != ExitOK || !strings.Contains(got.out, "mooring domain [command]") {
		t.Errorf("domain: %+v", got)
	}
	if got := runDomain(t, "grow"); got.code != ExitUsage || !strings.Contains(got.errOut, `unknown command "grow"`) {
		t.Errorf("domain grow: %+v", got)
	}
}

func runDomain(t *testing.T, args ...string) result {
	t.Helper()
	var out, errOut bytes.Buffer
	code := testProgram(&out, &errOut).Run(t.Context(), append([]string{"domain"}, args...))
	return result{code, out.String(), errOut.String()}
}

func TestDomainCommandsInDocs(t *testing.T) {
	runCommandsIn(t, "headroom.md", 1, map[string]string{"db.xml": xmlBlock.FindStringSubmatch(readDoc(t, "docs", "headroom.md"))[1]})
}
