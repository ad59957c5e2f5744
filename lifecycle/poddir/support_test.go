package poddir_test

import (
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const socketMode = fs.ModeSocket | 0o666

// dial connects to a socket with a path of any length.
func dial(t *testing.T, path string) {
	t.Helper()
	link := filepath.Join(t.TempDir(), "s")
	symlink(t, path, link)
	conn, err := net.Dial("unix", link)
	if err != nil {
		t.Error(err)
		return
	}
	conn.Close()
}

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func diffNames(t *testing.T, dir string, want ...string) string {
	t.Helper()
	got := names(t, dir)
	slices.Sort(got)
	return cmp.Diff(want, got)
}
