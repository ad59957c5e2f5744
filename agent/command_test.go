package agent

import (
	"bytes"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mooring-vm/mooring/internal/logflags"
	"github.com/mooring-vm/mooring/lifecycle/poddir"
)

// execute runs the command line and returns its output.
func execute(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	cmd := Command(testBuild, io.Discard)
	cmd.SetArgs(args)
	cmd.SetOut(&out)
	cmd.SetErr(&out)
	err := cmd.ExecuteContext(t.Context())
	return out.String(), err
}

func TestPrepare(t *testing.T) {
	root := filepath.Join(mountRoot(t, t.TempDir()), "nested")
	// The second call changes nothing.
	for range 2 {
		if _, err := execute(t, "prepare", "--root", root); err != nil {
			t.Fatal(err)
		}
	}
	if err := poddir.CheckMount(root); err != nil {
		t.Error(err)
	}
	if err := unix.Unmount(root, 0); err != nil {
		t.Fatal(err)
	}
	if err := poddir.CheckMount(root); err == nil {
		t.Error("the tmpfs was mounted twice")
	}
}

func TestCommandErrors(t *testing.T) {
	tests := map[string]struct {
		args []string
		want string
	}{
		"log format":      {[]string{"--log-format=xml"}, `--log-format "xml": want text or json`},
		"log level":       {[]string{"--log-level=loud"}, `"loud"`},
		"an argument":     {[]string{"policy.yaml"}, "policy.yaml"},
		"no policy":       {[]string{"--policy=/nonexistent"}, "start the agent: "},
		"prepare nowhere": {[]string{"prepare", "--root=/proc/nonexistent"}, "/proc/nonexistent"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if _, err := execute(t, tt.args...); err == nil ||
				!strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want one with %q", err, tt.want)
			}
		})
	}
}

func TestVersion(t *testing.T) {
	out, err := execute(t, "version")
	if want := "mooring-agent v1 (commit , )\n"; err != nil || out != want {
		t.Errorf("version printed %q, %v; want %q", out, err, want)
	}
}

func TestLogger(t *testing.T) {
	tests := map[string]string{logflags.Text: "level=WARN msg=seen pod=vms/vm",
		logflags.JSON: `"msg":"seen","pod":"vms/vm"`}
	for format, want := range tests {
		var out bytes.Buffer
		logger, err := logflags.New(&out, slog.LevelWarn, format)
		if err != nil {
			t.Fatal(err)
		}
		logger.Info("hidden")
		logger.Warn("seen", "pod", "vms/vm")
		if got := out.String(); !strings.Contains(got, want) || strings.Contains(got, "hidden") {
			t.Errorf("%s logger wrote %q, want %q", format, got, want)
		}
	}
}

func TestNode(t *testing.T) {
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	for given, want := range map[string]string{"Given": "Given", "": strings.ToLower(host)} {
		config := Config{NodeName: given}
		if got, err := config.node(); err != nil || got != want {
			t.Errorf("node with --node-name %q = %q, %v; want %q", given, got, err, want)
		}
	}
}
