package throwaway

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mooring-vm/mooring/hack/artefacts"
)

// The directory of a node is removed after a failed boot.
func TestFailedBootKeepsItsConsole(t *testing.T) {
	kept := t.TempDir()
	t.Setenv(artefacts.Env, kept)
	n := &Node{dir: t.TempDir()}
	if err := os.WriteFile(filepath.Join(n.dir, ConsoleFile), []byte("panic"), 0o600); err != nil {
		t.Fatal(err)
	}
	boom := errors.New("boom")
	err := n.addLogs(t.Context(), boom)
	_, dir, found := strings.Cut(err.Error(), "its console is in ")
	if !errors.Is(err, boom) || !found || filepath.Dir(dir) != kept {
		t.Fatalf("got %v, want the error and a folder in %s", err, kept)
	}
	if b, err := os.ReadFile(filepath.Join(dir, ConsoleFile)); err != nil || string(b) != "panic" {
		t.Errorf("kept %q, %v", b, err)
	}
	//nolint:errorlint // the same error, not wrapped
	if err := (&Node{dir: t.TempDir()}).addLogs(t.Context(), boom); err != boom {
		t.Errorf("nothing was booted: got %v", err)
	}
}
