package prestop_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mooring-vm/mooring/shim/prestop"
)

func TestRequested(t *testing.T) {
	path := filepath.Join(t.TempDir(), "stop")
	if _, err := prestop.Requested(path); !errors.Is(err, prestop.ErrNoDirectory) {
		t.Errorf("without a directory: %v", err)
	}
	if err := unix.Mkfifo(path, 0o666); err != nil {
		t.Fatal(err)
	}
	for at, want := range map[time.Time]bool{
		time.Unix(0, 0): false,
		time.Unix(1, 0): true,
		time.Now():      true,
	} {
		if err := os.Chtimes(path, at, at); err != nil {
			t.Fatal(err)
		}
		if got, err := prestop.Requested(path); err != nil || got != want {
			t.Errorf("touched at %v: %v, %v", at, got, err)
		}
	}
}
