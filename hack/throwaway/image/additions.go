package image

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"

	"github.com/mooring-vm/mooring/hack/throwaway/cache"
)

// extendedName is the name of the cache entries with additions. They are large, and only the last
// one is kept.
const extendedName = "disk-extended"

// Additions are files and container images on a node's disk besides those of every node.
type Additions struct {
	Files Files
	// Archives are files with container images, as `docker save` writes them. The node must have a
	// containerd built from its module.
	Archives []string
}

func (a *Additions) cacheName() string {
	if a == nil {
		return diskName
	}
	return extendedName
}

func (a *Additions) kept() int {
	if a == nil {
		return keptDisks
	}
	return 1
}

// extend adds the files to those of the disk, and returns the disk's key.
func (a *Additions) extend(key cache.Key, files Files) (cache.Key, error) {
	if a == nil {
		return key, nil
	}
	maps.Copy(files, a.Files)
	parts := []string{string(key), a.Files.Sum(), preloadRecipe}
	for _, archive := range a.Archives {
		sum, err := fileSum(archive)
		if err != nil {
			return "", fmt.Errorf("reading an archive of images: %w", err)
		}
		parts = append(parts, sum)
	}
	return cache.KeyOf(parts...), nil
}

func fileSum(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// preload imports the images into the containerd of a tree.
func (a *Additions) preload(ctx context.Context, containerd *cache.Entry, tree string) error {
	if a == nil || len(a.Archives) == 0 {
		return nil
	}
	if containerd == nil {
		return errors.New("the node has no containerd of its own to import images with")
	}
	for _, archive := range a.Archives {
		if err := Preload(ctx, containerd.Dir, tree, archive); err != nil {
			return fmt.Errorf("importing %s: %w", archive, err)
		}
	}
	return nil
}
