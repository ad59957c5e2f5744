package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/mooring-vm/mooring/hack/artefacts"
)

// The tests with the other handler never started.
func TestReadOfOneHandler(t *testing.T) {
	saved := t.TempDir()
	t.Setenv(artefacts.Env, saved)
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
	if err == nil || len(runs) != 1 {
		t.Fatalf("got %+v, %v, want the run with crun, and an error for runc", runs, err)
	}
	if r := runs[0]; r.Cell != "forky/2.4.2" || r.Handler != "crun" || r.Date == "" {
		t.Errorf("got %+v, want the run with crun", r)
	}
	if err := c.saveEvents(dir); err != nil {
		t.Fatal(err)
	}
	if found, err := filepath.Glob(filepath.Join(saved, "*", "crun.json")); err != nil ||
		len(found) != 1 {
		t.Errorf("saved %v, %v, want the events of crun", found, err)
	}
}
