package image

import (
	"context"
	"embed"
	"fmt"
	"os"
	"path/filepath"

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
func (b *Builder) disk(
	ctx context.Context, spec Spec, p parts, more *Additions,
) (*cache.Entry, cache.Key, error) {
	files, err := overlay(spec, p)
	if err != nil {
		return nil, "", err
	}
	key := cache.KeyOf(diskRecipe, p.rootfs.Dir, files.Sum())
	if key, err = more.extend(key, files); err != nil {
		return nil, "", err
	}
	e, err := b.store.Get(ctx, more.cacheName(), key, func(ctx context.Context, dir string) error {
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
		if err := files.Place(tree); err != nil {
			return err
		}
		if err := more.preload(ctx, p.containerd, tree); err != nil {
			return err
		}
		if err := b.Disk(ctx, tree, filepath.Join(dir, diskFile), diskSize); err != nil {
			return err
		}
		return os.RemoveAll(tree)
	})
	return e, key, err
}

// Disk makes an ext4 file system of this size from a tree. It has no journal, because no node lives
// longer than its QEMU.
func (b *Builder) Disk(ctx context.Context, tree, out, size string) error {
	cmd := child.Isolated(ctx, "mke2fs", "-q", "-t", "ext4", "-m", "0", "-L", "node",
		"-E", "lazy_itable_init=1,lazy_journal_init=1,root_owner=0:0",
		"-O", "^has_journal,^metadata_csum", "-d", tree, out, size)
	if err := b.run(cmd); err != nil {
		return fmt.Errorf("making the node's disk: %w", err)
	}
	return nil
}
