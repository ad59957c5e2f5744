package nodeconfig

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// TestUndoRestoresEveryByte runs configure and undo on nodes with any file in the place of
// Mooring's.
func TestUndoRestoresEveryByte(t *testing.T) {
	all := layouts()
	names := []string{"kubeadm", "k3s", "k3s with a directory", "k3s with an old template", "rke2"}
	rapid.Check(t, func(r *rapid.T) {
		l := all[rapid.SampledFrom(names).Draw(r, "layout")]
		f := newFixture(t, l.files)
		f.write(t, l.program, "")
		content := rapid.StringOf(rapid.SampledFrom([]rune("a#=[]\n\r\x00é "))).Draw(r, "content")
		if rapid.Bool().Draw(r, "exists") {
			f.write(t, l.writes, content)
			mode := os.FileMode(rapid.SampledFrom([]int{0o600, 0o644, 0o400}).Draw(r, "mode"))
			if err := os.Chmod(filepath.Join(f.root, l.writes), mode); err != nil {
				r.Fatal(err)
			}
		}
		f.Run = enabledAfter(l.writes, f)
		before := f.files(t)
		for range rapid.IntRange(1, 3).Draw(r, "runs") {
			if err := f.Configure(t.Context()); err != nil {
				r.Fatal(err)
			}
		}
		if !slices.Contains(changed(before, f.files(t)), l.writes) {
			r.Fatalf("%s did not change", l.writes)
		}
		if err := f.Undo(t.Context()); err != nil {
			r.Fatal(err)
		}
		if diff := cmp.Diff(before, f.files(t)); diff != "" {
			r.Errorf("(-before +after undo)\n%s", diff)
		}
	})
}

// enabledAfter is a containerd with its validator on once the file has Mooring's table.
func enabledAfter(path string, f *fixture) Runner {
	return func(_ context.Context, _ string, args ...string) (string, error) {
		if args[0] == "--version" {
			return "containerd x 2.4.2", nil
		}
		content, err := f.read(path)
		return fmt.Sprintf("[plugins.'io.containerd.nri.v1.nri'.default_validator]\nenable = %t\n",
			strings.Contains(text(content), table())), err
	}
}

func TestBlock(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		piece := rapid.SampledFrom([]string{"\n", "a", baseTemplate, blockEnd, "# Begin", " "})
		template := strings.Join(rapid.SliceOf(piece).Draw(r, "template"), "")
		if got := withoutBlock(withBlock(template)); got != template {
			r.Errorf("%q became %q", template, got)
		}
		if once := withBlock(template); withBlock(once) != once {
			r.Errorf("%q has two blocks", withBlock(once))
		}
	})
}

func TestImported(t *testing.T) {
	const file = "/etc/containerd/conf.d/mooring.toml"
	for pattern, want := range map[string]bool{
		"/etc/containerd/conf.d/*.toml":       true,
		"conf.d/*.toml":                       true,
		"/etc/containerd/conf.d/mooring.toml": true,
		"/etc/containerd/*.toml":              false,
		"/etc/containerd/conf.d/*.conf":       false,
		"[":                                   false,
	} {
		if got := imported([]string{"/other", pattern}, "/etc/containerd/config.toml",
			file); got != want {
			t.Errorf("%s: %t", pattern, got)
		}
	}
}

func TestDiff(t *testing.T) {
	before, after := "a\nb\n\nc\n", "a\nx\n\nc\n"
	got := change{before: &before, after: &after}.diff()
	if want := []string{"- b", "+ x"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
