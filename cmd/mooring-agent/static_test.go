package main

import (
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// The programs run on nodes of any distribution, and alone in an image: they must
// ask for no loader and no library. A package that needs cgo, or a build that
// turns it on, would change that. The flags are those of make build, and so its
// build cache is used.
func TestProgramsAreStatic(t *testing.T) {
	dir := t.TempDir()
	cmd := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s", "-o", dir, "../mooring-agent", "../mooring")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, name := range []string{"mooring-agent", "mooring"} {
		checkStatic(t, filepath.Join(dir, name))
	}
}

func checkStatic(t *testing.T, path string) {
	t.Helper()
	f, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			t.Errorf("%s asks for a loader (PT_INTERP)", path)
		}
	}
	libs, err := f.ImportedLibraries()
	if err != nil || len(libs) != 0 {
		t.Errorf("%s needs libraries: %v, %v", path, libs, err)
	}
}
