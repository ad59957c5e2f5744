package cli

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/api/podapi"
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
			if got := runPrepare(t, got.out, again...); got.code != ExitOK ||
				!strings.Contains(got.errOut, "headroom: 2, maximum 8 (") || got.out == "" {
				t.Errorf("%s again: %+v", name, got)
			}
		}
		if again := runPrepare(t, got.out, args...); again.out != got.out {
			t.Errorf("%s: a second run changes the output:\n%s", name, again.out)
		}
	}
}

func TestDomainPrepareHelp(t *testing.T) {
	golden(t, "help-domain-prepare", runPrepare(t, "", "--help").out)
}

func TestDomainPrepareForThisMachine(t *testing.T) {
	var out, errOut bytes.Buffer
	machine := fstest.MapFS{
		"proc/meminfo":                  {Data: []byte("MemTotal: 8388608 kB\n")},
		"sys/devices/system/cpu/online": {Data: []byte("0-15\n")},
	}
	program, o := testProgram(&out, &errOut), headroom.Options{Memory: -1}
	err := program.fillCapacities(t.Context(), machine, &o, headroom.Source{Policy: noPolicy})
	if err == nil {
		err = program.domainPrepare(strings.NewReader(growableXML), o, "", stdin)
	}
	if err != nil || !strings.Contains(errOut.String(), "can grow to 16\n") ||
		!strings.Contains(errOut.String(), "can grow to 8Gi") {
		t.Errorf("%v\n%s", err, errOut.String())
	}
	err = program.fillCapacities(t.Context(), fstest.MapFS{}, &headroom.Options{},
		headroom.Source{Policy: noPolicy})
	if err == nil || !strings.Contains(err.Error(), "the host's memory: ") ||
		!strings.Contains(err.Error(), "want --memory-capacity") {
		t.Errorf("on a machine without procfs: %v", err)
	}
}

func noPolicy(context.Context) (podapi.Headroom, error) { return podapi.Headroom{}, nil }

// The node policy of an agent sets the capacities, and flags override it.
func TestDomainPrepareByPolicy(t *testing.T) {
	const memory, vcpus, both = "can grow to 4Gi", "can grow to 8\n", "capacity of memory and " +
		"CPUs: from the node policy\n"
	a := startAgent(t)
	node := testNode
	node.Headroom = podapi.Headroom{Memory: 4 << 30, CPUs: 8}
	a.node.Store(&node)
	for args, want := range map[string][]string{
		"": {both, memory, vcpus},
		"--cpu-capacity 6": {"capacity of memory: from the node policy\n", memory,
			"can grow to 6\n"},
		"--memory-capacity 2048": {"capacity of CPUs: from the node policy\n",
			"can grow to 2Gi", vcpus},
		"--memory-capacity 2048 --cpu-capacity 3": {"can grow to 2Gi", "can grow to 3\n"},
		"--memory-device dimm":                    {both, memory, vcpus},
		"--memory-capacity 2048 --cpu-capacity 0": {"can grow to 2Gi"},
	} {
		got := runPrepare(t, growableXML,
			append([]string{"--socket", a.socket}, strings.Fields(args)...)...)
		if got.code != ExitOK || strings.Count(got.errOut, "capacity of ") > 1 {
			t.Errorf("%s: %+v", args, got)
		}
		for _, line := range want {
			if !strings.Contains(got.errOut, line) {
				t.Errorf("%s: %q, want %q in it", args, got.errOut, line)
			}
		}
		if fromPolicy := len(want) > 0 && strings.HasPrefix(want[0], "capacity of "); fromPolicy !=
			strings.Contains(got.errOut, "from the node policy") {
			t.Errorf("%s: %q", args, got.errOut)
		}
	}
}

// The output has a warning about an agent that does not answer, but none without a socket.
func TestDomainPrepareWithoutAgent(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "agent.sock")
	if got := runPrepare(t, growableXML, "--socket", socket); got.code != ExitOK ||
		strings.Contains(got.errOut, "not known") {
		t.Errorf("without a socket: %+v", got)
	}
	if err := os.WriteFile(socket, nil, 0o600); err != nil { // a file without a listener
		t.Fatal(err)
	}
	got := runPrepare(t, growableXML, "--socket", socket)
	if got.code != ExitOK || !strings.Contains(got.errOut, "cannot read the node policy's "+
		"capacities, using those of this machine: mooring-agent is not running") {
		t.Errorf("with a socket without a listener: %+v", got)
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
		{"", []string{"a.xml", "b.xml"}, ExitUsage, "mooring domain prepare: got 2 arguments, " +
			"want at most one FILE"},
		{"", []string{"--memory-capacity", "4Gi"}, ExitUsage, `"4Gi" for "--memory-capacity"`},
		{"", append(capacity, "--memory-device", "ram"), ExitUsage,
			`memory device "ram": want virtio-mem or dimm`},
		{"", append(capacity, "--memory-slots", "300"), ExitUsage,
			"memory slots 300: want 1 to 256"},
		{"", append(capacity, "--memory-block", "3"), ExitUsage, "memory block of 3 MiB"},
		{"", append(capacity, filepath.Join(t.TempDir(), "none.xml")), ExitFailure,
			"none.xml: no such file"},
		{"", capacity, ExitFailure, "standard input: domain XML: there is none"},
		{sev, capacity, ExitFailure, "refused: launchSecurity: "},
		{sev, capacity, ExitFailure, "error: standard input: the domain cannot get headroom\n"},
		{strings.Replace(sev, "'q35'", "'\x7f&#x9b;'", 1), capacity, ExitFailure,
			"refused: os/type machine "},
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
	if got := runDomain(t, "grow"); got.code != ExitUsage ||
		!strings.Contains(got.errOut, `unknown command "grow"`) {
		t.Errorf("domain grow: %+v", got)
	}
}

func runDomain(t *testing.T, args ...string) result {
	t.Helper()
	var out, errOut bytes.Buffer
	code := testProgram(&out, &errOut).Run(t.Context(), append([]string{"domain"}, args...))
	return result{code, out.String(), errOut.String()}
}

// The owner goes into the metadata of the prepared domain.
func TestDomainPrepareOwner(t *testing.T) {
	args := []string{"--memory-capacity", "4096", "--cpu-capacity", "8", "--owner"}
	got := runPrepare(t, growableXML, append(args, "vms/vm-1/3f4c1f0e-8a63")...)
	if got.code != ExitOK || !strings.Contains(got.out, api.OwnerNamespace) ||
		!strings.Contains(got.out, "3f4c1f0e-8a63") {
		t.Errorf("%+v", got)
	}
	got = runPrepare(t, growableXML, append(args, "$(POD)")...)
	if got.code != ExitUsage || got.out != "" || !strings.Contains(got.errOut, "NAMESPACE/NAME/UID") {
		t.Errorf("%+v", got)
	}
}
