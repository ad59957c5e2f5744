package module

import (
	"os"
	"path/filepath"
	"testing"
)

func write(t *testing.T, file, content string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestKeyFollowsTheFiles(t *testing.T) {
	m := Module{dir: t.TempDir()}
	seen := map[string]string{}
	check := func(what string, parts ...string) {
		t.Helper()
		key, err := m.Key(parts...)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := m.Key(parts...); err != nil || again != key {
			t.Errorf("%s: key %s and then %s, error %v", what, key, again, err)
		}
		if before, ok := seen[string(key)]; ok {
			t.Errorf("%s has the key of %s", what, before)
		}
		seen[string(key)] = what
	}
	check("no file")
	check("a part", "program")
	write(t, filepath.Join(m.dir, "main.go"), "package main")
	check("a file")
	write(t, filepath.Join(m.dir, "main.go"), "package main // changed")
	check("a changed file")
	write(t, filepath.Join(m.dir, "go.sum"), "")
	check("another file")
}

func TestFindNeedsACheckout(t *testing.T) {
	if m, err := Find(t.Context(), "github.com/mooring-vm/mooring/hack/no-such-package",
		"components"); err == nil {
		t.Errorf("found %v", m)
	}
}

func TestBuildsAndLinks(t *testing.T) {
	m, out := Module{dir: t.TempDir()}, filepath.Join(t.TempDir(), "program")
	write(t, filepath.Join(m.dir, "go.mod"), "module example.test/program\n")
	write(t, filepath.Join(m.dir, "main.go"), "package main\n\nfunc main() {}\n")
	if err := m.Build(t.Context(), out); err != nil {
		t.Fatal(err)
	}
	if err := Link(out, "one", "other"); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"one", "other"} {
		if _, err := run(goCommand(t.Context(), "", "version",
			filepath.Join(filepath.Dir(out), name))); err != nil {
			t.Error(err)
		}
	}
	write(t, filepath.Join(m.dir, "main.go"), "package main\n\nfunc main() { broken }\n")
	if err := m.Build(t.Context(), out); err == nil {
		t.Error("built what is no program")
	}
}

func TestListsTools(t *testing.T) {
	m := Module{dir: t.TempDir()}
	write(t, filepath.Join(m.dir, "go.mod"),
		"module example.test/program\n\ngo 1.26.0\n\ntool example.test/program\n")
	write(t, filepath.Join(m.dir, "main.go"), "package main\n\nfunc main() {}\n")
	tools, err := m.Tools(t.Context())
	if err != nil || len(tools) != 1 || tools[0] != "example.test/program" {
		t.Errorf("tools are %v, error %v", tools, err)
	}
}
