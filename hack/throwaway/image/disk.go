package image

import (
	"context"
	"embed"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strconv"

	"github.com/mooring-vm/mooring/hack/throwaway/cache"
	"github.com/mooring-vm/mooring/hack/throwaway/child"
)

const (
	diskName   = "disk"
	diskFile   = "node.ext4"
	diskSize   = "16G" // sparse
	diskRecipe = "1"
)

//go:embed files containerd-config cri-o
var embedded embed.FS

// disk adds Mooring's files to the root file system and makes an ext4 of it.
func (b *Builder) disk(ctx context.Context, spec Spec, p parts) (*cache.Entry, cache.Key, error) {
	files, err := overlay(spec, p)
	if err != nil {
		return nil, "", err
	}
	key := cache.KeyOf(diskRecipe, p.rootfs.Dir, files.sum())
	e, err := b.store.Get(ctx, diskName, key, func(ctx context.Context, dir string) error {
		if err := checkRoot("the node's disk"); err != nil {
			return err
		}
		b.log.Info("making the node's disk", "node", spec)
		tree := filepath.Join(dir, "tree")
		// Hard links: the copy takes neither time nor space, and place removes a file before it
		// writes.
		if err := b.run(child.Isolated(ctx, "cp", "-al", filepath.Join(p.rootfs.Dir, treeDir),
			tree)); err != nil {
			return err
		}
		if err := files.place(tree); err != nil {
			return err
		}
		if err := b.mke2fs(ctx, tree, filepath.Join(dir, diskFile)); err != nil {
			return err
		}
		return os.RemoveAll(tree)
	})
	return e, key, err
}

func (b *Builder) mke2fs(ctx context.Context, tree, out string) error {
	cmd := child.Isolated(ctx, "mke2fs", "-q", "-t", "ext4", "-m", "0", "-L", "node",
		"-E", "lazy_itable_init=1,lazy_journal_init=1,root_owner=0:0",
		"-O", "^has_journal,^metadata_csum", "-d", tree, out, diskSize)
	if err := b.run(cmd); err != nil {
		return fmt.Errorf("making the node's disk: %w", err)
	}
	return nil
}

// file is a file of the node. With link it is a symbolic link. With absent it is removed from the
// root file system.
type file struct {
	content []byte
	mode    fs.FileMode
	link    string
	absent  bool
}

// fileSet maps paths below the root to files.
type fileSet map[string]file

func (f fileSet) sum() string {
	var parts []string
	for _, path := range f.paths() {
		parts = append(parts, path, f[path].mode.String(), f[path].link,
			strconv.FormatBool(f[path].absent), string(f[path].content))
	}
	return string(cache.KeyOf(parts...))
}

func (f fileSet) paths() []string {
	paths := make([]string, 0, len(f))
	for path := range f {
		paths = append(paths, path)
	}
	sort.Strings(paths)
	return paths
}

func (f fileSet) place(tree string) error {
	for _, path := range f.paths() {
		if err := f[path].place(filepath.Join(tree, path)); err != nil {
			return fmt.Errorf("placing /%s: %w", path, err)
		}
	}
	return nil
}

func (f file) place(to string) error {
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	if err := os.Remove(to); err != nil && !os.IsNotExist(err) {
		return err
	}
	if f.absent {
		return nil
	}
	if f.link != "" {
		return os.Symlink(f.link, to)
	}
	return os.WriteFile(to, f.content, f.mode)
}
