package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/mooring-vm/mooring/agent/doctor"
)

func TestDoctor(t *testing.T) {
	machine := doctor.Machine{
		Root: fstest.MapFS{
			"proc/sys/kernel/osrelease": {Data: []byte("5.4.0\x1b[2J")},
			"sys/kernel/btf/vmlinux":    {},
		},
		PodDirs: func() error { return errors.New("want\na tmpfs") },
	}
	var out, errOut bytes.Buffer
	program := testProgram(&out, &errOut)
	err := program.doctor(t.Context(), formatText, machine)
	if err == nil || err.Error() != "doctor: problems found: 2" {
		t.Errorf("error %v", err)
	}
	for _, want := range []string{
		"problem  kernel: 5.4.0?[2J\n         the agent does not start on kernels before 5.6: " +
			"they have no openat2(2)\n         To mend it: upgrade the kernel",
		"ok       btf: /sys/kernel/btf/vmlinux\n         the agent can load its eBPF programs",
		"note     pod-directories: want; a tmpfs\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("output lacks %q:\n%s", want, out.String())
		}
	}
	out.Reset()
	err = program.doctor(t.Context(), formatJSON, machine)
	var report doctor.Report
	if json.Unmarshal(out.Bytes(), &report) != nil || report.Problems != 2 || err == nil {
		t.Errorf("%v, %v:\n%s", report, err, out.String())
	}
}

// The command examines this machine with its flags.
func TestDoctorCommand(t *testing.T) {
	write(t,
		map[string]string{"off.toml": "[plugins.'io.containerd.nri.v1.nri']\ndisable = true\n"})
	got := runOn(t, "", "doctor", "--containerd-config=off.toml",
		"--runtime-endpoint=unix:///none.sock")
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"problem  nri: switched off by " + here + "/off.toml",
		"containerd: ask the container runtime at /none.sock"} {
		if !strings.Contains(got.out, want) {
			t.Errorf("output lacks %q:\n%s", want, got.out)
		}
	}
	if got.code != ExitFailure || !strings.Contains(got.errOut, "error: doctor: problems found: ") {
		t.Errorf("exit code %d: %s", got.code, got.errOut)
	}
}
