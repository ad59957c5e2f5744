package journal_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mooring-vm/mooring/shim/resize"
	"github.com/mooring-vm/mooring/shim/resize/journal"
	"github.com/mooring-vm/mooring/shim/resize/target"
)

func open(t *testing.T, dir string) *journal.File {
	t.Helper()
	f, err := journal.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	return f
}

func record(generation uint64) resize.Record {
	return resize.Record{
		Domain: "a-vm", Phase: resize.Running, Target: target.Target{Generation: generation},
		Steps: resize.Steps{resize.SetVCPUs{From: 1, To: 2}}, Started: 1,
	}
}

func TestStoreReplaces(t *testing.T) {
	dir := t.TempDir()
	f := open(t, dir)
	if _, err := f.Load(); !errors.Is(err, resize.ErrNoRecord) {
		t.Errorf("an empty journal: %v", err)
	}
	for generation := range uint64(3) {
		if err := f.Store(record(generation)); err != nil {
			t.Fatal(err)
		}
		got, err := open(t, dir).Load() // like a restarted shim
		if diff := cmp.Diff(record(generation), got); diff != "" || err != nil {
			t.Errorf("%v (-want +got)\n%s", err, diff)
		}
	}
	if names := list(t, dir); names != "resize.json" {
		t.Errorf("left: %s", names)
	}
}

func list(t *testing.T, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return strings.Join(names, " ")
}

// Load ignores an unfinished write.
func TestUnfinishedFile(t *testing.T) {
	dir := t.TempDir()
	f := open(t, dir)
	if err := f.Store(record(1)); err != nil {
		t.Fatal(err)
	}
	err := os.WriteFile(filepath.Join(dir, "resize.json.new"), []byte(`{"version":2,"rec`), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := f.Load(); err != nil || got.Target.Generation != 1 {
		t.Errorf("got %+v, %v", got, err)
	}
	if err := f.Store(record(2)); err != nil {
		t.Error(err)
	}
}

// Load reports an unreadable file once and moves it away.
func TestCorruptFile(t *testing.T) {
	for name, text := range map[string]string{
		"empty": "", "torn": `{"version":2,"record":{"pha`, "zeros": strings.Repeat("\x00", 100),
		"large": strings.Repeat(" ", 1<<20) + "{}", "other": `{"version":9,"record":{}}`,
	} {
		dir := t.TempDir()
		f := open(t, dir)
		if err := os.WriteFile(filepath.Join(dir, "resize.json"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := f.Load()
		if err == nil || errors.Is(err, resize.ErrNoRecord) ||
			!strings.Contains(err.Error(), "moved to resize.json.bad") {
			t.Errorf("%s: got %v", name, err)
		}
		if _, err := f.Load(); !errors.Is(err, resize.ErrNoRecord) {
			t.Errorf("%s: reported twice: %v", name, err)
		}
		if names := list(t, dir); names != "resize.json.bad" {
			t.Errorf("%s: left: %s", name, names)
		}
	}
}

func TestOpenMissingDirectory(t *testing.T) {
	if f, err := journal.Open(filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error(f.Close())
	}
}
