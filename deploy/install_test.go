package deploy

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mooring-vm/mooring/agent"
)

// dump is a part of the output of `containerd config dump`, of containerd 2.4.
const dump = `
  [plugins.'io.containerd.nri.v1.nri']
    disable = false

    [plugins.'io.containerd.nri.v1.nri'.default_validator]
      enable = %t
      required_plugins = []

  [plugins.'io.containerd.other.v1']
    enable = true
`

// installer runs install.sh with stand-ins for the programs that change the machine.
type installer struct {
	dir  string
	dump string // of containerd
	fail string // a stand-in that fails
	env  []string
}

func newInstaller(t *testing.T, dump string) *installer {
	t.Helper()
	return &installer{dir: t.TempDir(), dump: dump}
}

// run returns the command lines of the stand-ins and the output of the script.
func (i *installer) run(t *testing.T) (calls, printed string, err error) {
	t.Helper()
	for _, name := range []string{"path/install", "path/mv", "path/systemctl", "path/cmp",
		"path/containerd", "bin/mooring-agent"} {
		i.standIn(t, name)
	}
	script, err := os.ReadFile("install.sh")
	if err != nil {
		t.Fatal(err)
	}
	i.write(t, "deploy/install.sh", string(script))
	i.write(t, "dump", i.dump)
	i.write(t, "calls", "")
	cmd := exec.CommandContext(t.Context(), "/bin/sh", filepath.Join(i.dir, "deploy", "install.sh"))
	cmd.Env = append([]string{"PATH=" + i.dir + "/path:/usr/bin:/bin"}, i.env...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err = cmd.Run()
	log, readErr := os.ReadFile(filepath.Join(i.dir, "calls"))
	if readErr != nil {
		t.Fatal(readErr)
	}
	return string(log), out.String(), err
}

// standIn writes a program that records its command line. The stand-in of cmp reports a difference.
func (i *installer) standIn(t *testing.T, name string) {
	t.Helper()
	end := "exit 0"
	switch {
	case name == i.fail, name == "path/cmp":
		end = "exit 1"
	case strings.HasSuffix(name, "containerd"):
		end = "cat " + i.dir + "/dump"
	}
	i.write(t, name, fmt.Sprintf("#!/bin/sh\necho %s \"$@\" >>%s/calls\n%s\n", filepath.Base(name),
		i.dir, end))
}

func (i *installer) write(t *testing.T, name, content string) {
	t.Helper()
	path := filepath.Join(i.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o755); err != nil {
		t.Fatal(err)
	}
}

func TestInstall(t *testing.T) {
	hook := agent.DefaultConfig().Hook
	calls, printed, err := newInstaller(t, fmt.Sprintf(dump, true)).run(t)
	if err != nil || printed != "" {
		t.Errorf("%v, printed %q", err, printed)
	}
	at := 0
	for _, want := range []string{
		"mooring-agent check --policy /etc/mooring/policy.yaml\n",
		"install -D -m 0755 bin/mooring-hook " + hook + ".new\n",
		"mv -f " + hook + ".new " + hook + "\n",
		"systemctl restart containerd.service\n",
		"systemctl restart mooring-agent.service mooring-fence.service\n",
		"containerd config dump\n",
	} {
		next := strings.Index(calls[at:], want)
		if next < 0 {
			t.Fatalf("no call %q after %q", want, calls[:at])
		}
		at += next + len(want)
	}
}

// Without the validator, launchers that require the agent start without it. The script must say so,
// because all else works.
func TestInstallWarnsWithoutTheValidator(t *testing.T) {
	for name, dump := range map[string]string{"off": fmt.Sprintf(dump, false),
		"not there": "version = 3\n"} {
		calls, printed, err := newInstaller(t, dump).run(t)
		if err == nil ||
			!strings.Contains(printed, "\n    imports = ['/etc/containerd/conf.d/*.toml']\n") {
			t.Errorf("validator %s: %v, printed %q", name, err, printed)
		}
		if !strings.Contains(calls, "systemctl restart mooring-agent.service "+
			"mooring-fence.service\n") {
			t.Errorf("validator %s: the agent was not started: %s", name, calls)
		}
	}
}

func TestInstallRunsAnotherContainerd(t *testing.T) {
	i := newInstaller(t, fmt.Sprintf(dump, true))
	i.env = []string{"CONTAINERD=" + i.dir + "/opt/containerd"}
	i.standIn(t, "opt/containerd")
	i.fail = "path/containerd"
	if calls, printed, err := i.run(t); err != nil ||
		strings.Count(calls, "containerd config dump\n") != 1 {
		t.Errorf("%v, printed %q, calls %q", err, printed, calls)
	}
}

// The check comes first, so that the old agent keeps running under a policy with errors.
func TestInstallChecksThePolicyFirst(t *testing.T) {
	i := newInstaller(t, fmt.Sprintf(dump, true))
	i.fail = "bin/mooring-agent"
	calls, _, err := i.run(t)
	if err == nil || strings.Contains(calls, "systemctl") ||
		strings.Contains(calls, "/usr/local/bin") {
		t.Errorf("%v, and calls %q: want no call that changes the machine", err, calls)
	}
}
