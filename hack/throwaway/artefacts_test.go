package throwaway

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mooring-vm/mooring/hack/throwaway/cache"
)

// TestFailedBootKeepsItsConsole has the folder of a node whose boot failed,
// which is removed with the error.
func TestFailedBootKeepsItsConsole(t *testing.T) {
	kept := t.TempDir()
	t.Setenv(EnvArtefacts, kept)
	n := &Node{dir: t.TempDir()}
	if err := os.WriteFile(filepath.Join(n.dir, ConsoleFile), []byte("panic"), 0o600); err != nil {
		t.Fatal(err)
	}
	boom := errors.New("boom")
	err := n.explain(t.Context(), boom)
	_, dir, found := strings.Cut(err.Error(), "its console is in ")
	if !errors.Is(err, boom) || !found || filepath.Dir(dir) != kept {
		t.Fatalf("got %v, want the error and a folder in %s", err, kept)
	}
	if b, err := os.ReadFile(filepath.Join(dir, ConsoleFile)); err != nil || string(b) != "panic" {
		t.Errorf("kept %q, %v", b, err)
	}
	if err := (&Node{dir: t.TempDir()}).explain(t.Context(), boom); err != boom { //nolint:errorlint // the very same
		t.Errorf("nothing was booted: got %v", err)
	}
}

func TestOldArtefactsArePruned(t *testing.T) {
	store, err := cache.New(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for i := range keptArtefacts + 3 {
		if err := os.MkdirAll(store.Dir("artefacts", fmt.Sprintf("20260101-0000%02d-x", i), "sub"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(store.Dir("artefacts", "mine"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := pruneArtefacts(store); err != nil {
		t.Fatal(err)
	}
	left, err := filepath.Glob(store.Dir("artefacts", "*"))
	if err != nil || len(left) != keptArtefacts+1 || filepath.Base(left[0]) != "20260101-000003-x" {
		t.Errorf("left: %v, %v, want the newest %d and what is not ours", left, err, keptArtefacts)
	}
}
