package systemd

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestUnits runs systemd-analyze verify. systemd itself only warns of unknown settings.
func TestUnits(t *testing.T) {
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("missing: systemd")
	}
	dir := t.TempDir()
	var paths []string
	for _, name := range []string{"mooring-agent.service", "mooring-fence.service",
		"run-mooring.mount"} {
		paths = append(paths, installable(t, name, dir))
	}
	cmd := exec.CommandContext(t.Context(), analyze,
		append([]string{"verify", "--man=no"}, paths...)...)
	cmd.Env = append(os.Environ(), "SYSTEMD_UNIT_PATH="+dir+":")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("systemd-analyze verify: %v", err)
	}
	for line := range strings.Lines(string(out)) {
		if strings.Contains(line, "mooring") {
			t.Error(strings.TrimSpace(line))
		}
	}
}

// installable copies a unit to dir, with an existing program.
func installable(t *testing.T, name, dir string) string {
	t.Helper()
	unit, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	present := strings.ReplaceAll(string(unit), "/usr/local/bin/mooring-agent", "/bin/true")
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(present), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
