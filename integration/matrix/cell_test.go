package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/mooring-vm/mooring/hack/artefacts"
)

// TestReadOfOneHandler has events of one handler only. The other handler's tests never started.
func TestReadOfOneHandler(t *testing.T) {
	kept := t.TempDir()
	t.Setenv(artefacts.Env, kept)
	dir := t.TempDir()
	events, err := os.ReadFile("testdata/events.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "crun.json"), events, 0o600); err != nil {
		t.Fatal(err)
	}
	c := cell{Suite: "forky", Containerd: "2.4.2", Handlers: []string{"runc", "crun"}}
	runs, err := c.read(dir)
	if err == nil || len(runs) != 1 || runs[0].Cell != "forky/2.4.2" || runs[0].Handler != "crun" || runs[0].Date == "" {
		t.Errorf("got %+v, %v, want the run with crun, and an error for runc", runs, err)
	}
	if err := c.keep(dir); err != nil {
		t.Fatal(err)
	}
	if found, err := filepath.Glob(filepath.Join(kept, "*", "crun.json")); err != nil || len(found) != 1 {
		t.Errorf("kept %v, %v, want the events of crun", found, err)
	}
}
