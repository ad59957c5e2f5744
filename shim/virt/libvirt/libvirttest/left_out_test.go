package libvirttest

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A build without libvirt names every package of which it leaves out tests.
func TestLeftOutPackages(t *testing.T) {
	const root = "../../../.."
	var found []string
	err := filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if bytes.HasPrefix(text, []byte("//go:build cgo && libvirt_dlopen\n")) {
			dir, err := filepath.Rel(root, filepath.Dir(path))
			found = append(found, filepath.ToSlash(dir))
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(found)
	if diff := cmp.Diff(leftOutPackages, slices.Compact(found)); diff != "" {
		t.Errorf("(-listed +found)\n%s", diff)
	}
	for _, dir := range leftOutPackages {
		if _, err := os.Stat(filepath.Join(root, dir, "left_out_test.go")); err != nil {
			t.Errorf("want a test that calls LeftOut: %v", err)
		}
	}
}
