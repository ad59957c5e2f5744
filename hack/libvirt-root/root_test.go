package main

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mooring-vm/mooring/hack/throwaway/cache"
)

func TestRefused(t *testing.T) {
	for want, args := range map[string][]string{
		"want one argument": nil,
		`suite "jessie": want one of bookworm, trixie, forky`: {"jessie"},
	} {
		if err := run(t.Context(), args); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("run(%q): %v, want an error with %q", args, err, want)
		}
	}
}

// fake makes PATH find an mmdebstrap that writes these files.
func fake(t *testing.T, files ...string) {
	t.Helper()
	text := "#!/bin/sh -e\nfor last; do :; done\necho made \"$last\"\n"
	for _, file := range files {
		text += "mkdir -p \"$last/$(dirname " + file + ")\"\n: >\"$last/" + file + "\"\n"
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "mmdebstrap"), []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
}

func TestRoot(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("missing: root")
	}
	t.Setenv(cache.EnvDir, t.TempDir())
	get := func(suite string) (string, error) {
		return root(t.Context(), suite, slog.New(slog.NewTextHandler(t.Output(), nil)))
	}
	fake(t, programs()[0])
	if path, err := get("forky"); err == nil || !strings.Contains(err.Error(), programs()[1]) {
		t.Errorf("root without QEMU: %q, %v", path, err)
	}
	fake(t, programs()...)
	path, err := get("forky")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(path, programs()[1])); err != nil {
		t.Error(err)
	}
	fake(t)
	if again, err := get("forky"); again != path || err != nil {
		t.Errorf("once more: %q, %v, want %q", again, err, path)
	}
	if other, err := get("trixie"); err == nil {
		t.Errorf("trixie is %q, as forky", other)
	}
}
