package image

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/mooring-vm/mooring/hack/throwaway/cache"
)

// Each difference in the additions makes another disk.
func TestAdditionsChangeTheKey(t *testing.T) {
	archive := func(content string) string {
		path := filepath.Join(t.TempDir(), "images.tar")
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	file := Files{"etc/a": {Content: []byte("a")}}
	seen := map[cache.Key]string{}
	for name, a := range map[string]*Additions{
		"none":          nil,
		"empty":         {},
		"a file":        {Files: file},
		"an archive":    {Archives: []string{archive("1")}},
		"another one":   {Archives: []string{archive("2")}},
		"file, archive": {Files: file, Archives: []string{archive("1")}},
	} {
		files := Files{"etc/hostname": {}}
		key, err := a.extend("key", files)
		if err != nil {
			t.Fatal(err)
		}
		if other, ok := seen[key]; ok {
			t.Errorf("%s and %s have the same key", name, other)
		}
		seen[key] = name
		if _, placed := files["etc/a"]; placed != (a != nil && len(a.Files) > 0) {
			t.Errorf("%s: the file is placed: %v", name, placed)
		}
	}
	if _, ok := seen["key"]; !ok {
		t.Error("a node without additions has another disk than before")
	}
}

func TestAdditionsRefused(t *testing.T) {
	missing := &Additions{Archives: []string{filepath.Join(t.TempDir(), "missing.tar")}}
	if _, err := missing.extend("key", Files{}); err == nil {
		t.Error("a missing archive is no error")
	}
	if err := missing.preload(t.Context(), nil, t.TempDir()); err == nil {
		t.Error("images for a node without a containerd of its own are no error")
	}
}
