package command

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mooring-vm/mooring/internal/buildinfo"
)

// Bad flags fail before the program connects to anything.
func TestBadFlags(t *testing.T) {
	dir := t.TempDir()
	for _, tt := range []struct {
		args string
		want string
	}{
		{"run", "--journal: want a directory"},
		{"run --journal=" + filepath.Join(dir, "none"), "--journal: "},
		{"run --journal=" + dir + " --overhead=-1", "--overhead: "},
		{"run --journal=" + dir + " --max-memory=1.5", "--max-memory: "},
		{"run --journal=" + dir + " --shrink-timeout=0", "--shrink-timeout 0s: want 1s to 29m0s"},
		{"run --journal=" + dir + " --vcpu-timeout=-1m", "--vcpu-timeout -1m0s: want 1s to 29m0s"},
		{
			"run --journal=" + dir + " --ask=telepathy",
			`--ask "telepathy": want a list of acpi, guest-agent`,
		},
		{"run --journal=" + dir + " --ask=", "--ask: empty"},
		{"run extra", "unknown command"},
		{"--log-format=xml run --journal=" + dir, `--log-format "xml"`},
		{"hook --version=v9", `version "v9"`},
	} {
		var out bytes.Buffer
		cmd := Command(buildinfo.Info{}, &out)
		cmd.SetArgs(strings.Fields(tt.args))
		cmd.SetOut(&out)
		err := cmd.ExecuteContext(t.Context())
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %s", tt.args, err, tt.want)
		}
	}
}
