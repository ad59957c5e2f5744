package cache

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

func manifest(dir string) string { return dir + ".sum" }

// intact reports whether dir still is what publish left there.
func intact(dir string) bool {
	want, err := os.ReadFile(manifest(dir))
	if err != nil {
		return false
	}
	got, err := fingerprint(dir)
	return err == nil && got == string(want)
}

// fingerprint sums up names, modes, sizes and modification times of a tree. It
// notices what is missing, truncated, added or written to, and takes tens of
// milliseconds for a root file system; reading every byte would take longer
// than the boot that follows.
func fingerprint(dir string) (string, error) {
	h := sha256.New()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		if info.Mode().IsRegular() {
			fmt.Fprintf(h, "%q %v %d %d\n", rel, info.Mode(), info.Size(), info.ModTime().UnixNano())
		} else {
			fmt.Fprintf(h, "%q %v\n", rel, info.Mode())
		}
		return nil
	})
	if err != nil {
		return "", fmt.Errorf("summing up %s: %w", dir, err)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
