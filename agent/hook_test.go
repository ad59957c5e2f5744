package agent

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestUsableHook(t *testing.T) {
	dir := t.TempDir()
	program := filepath.Join(dir, "hook")
	private := filepath.Join(dir, "private")
	for path, mode := range map[string]os.FileMode{program: 0o755, private: 0o700} {
		if err := os.WriteFile(path, nil, mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil { // regardless of the umask
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
	for path, test := range map[string]struct{ want, log string }{
		program:                       {program, ""},
		"":                            {"", ""},
		filepath.Join(dir, "missing"): {"", "no such file"},
		dir:                           {"", "want a program"},
		private:                       {"", "-rwx------"},
		"hook":                        {"", "absolute"},
	} {
		log := &syncBuffer{}
		got := usableHook(path, slog.New(slog.NewTextHandler(log, nil)))
		text := log.String()
		if got != test.want || !strings.Contains(text, test.log) ||
			strings.Count(text, "\n") != min(1, len(test.log)) {
			t.Errorf("--hook=%s: %q, log %q", path, got, text)
		}
	}
}
