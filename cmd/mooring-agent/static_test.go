package main

import (
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// The programs run on nodes of any distribution, and in an image without other files. So they
// must need no loader and no library. The flags are the same as in make build, so that the
// test uses its build cache.
func TestProgramsAreStatic(t *testing.T) {
	dir := t.TempDir()
	cmd := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-buildvcs=false",
		"-ldflags=-s", "-o", dir, "../mooring-agent", "../mooring")
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
			t.Errorf("%s needs a loader (PT_INTERP)", path)
		}
	}
	libs, err := f.ImportedLibraries()
	if err != nil || len(libs) != 0 {
		t.Errorf("%s needs libraries: %v, %v", path, libs, err)
	}
}
