package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// images returns the names of the images of a platform.
func images(p platform) []string {
	all := []string{"mooring-agent", "mooring-controller"}
	if hasShim(p) {
		all = append(all, shim)
	}
	return all
}

// writeImages makes an OCI archive of each image, for all its platforms.
func (r *release) writeImages(ctx context.Context) error {
	indexes := map[string]v1.ImageIndex{}
	for _, p := range nodePlatforms() {
		dir := filepath.Join(r.programs(), "images", p.String())
		if _, err := output(ctx, nil, "go", "run", "./hack/image", "--bin="+
			filepath.Dir(r.program(p, cli)), "--out="+dir, "--arch="+p.arch, "--tag="+r.version,
			"--registry="+r.registry, "--only="+strings.Join(images(p), ",")); err != nil {
			return err
		}
		for _, name := range images(p) {
			image, err := tarball.ImageFromPath(filepath.Join(dir, name+".tar"), nil)
			if err != nil {
				return fmt.Errorf("%s of %s: %w", name, p, err)
			}
			if indexes[name] == nil {
				indexes[name] = empty.Index
			}
			indexes[name] = mutate.AppendManifests(indexes[name], mutate.IndexAddendum{Add: image,
				Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: p.os, Architecture: p.arch}}})
		}
	}
	for name, index := range indexes {
		file := filepath.Join(r.out, name+"_"+r.version+".oci.tar.gz")
		if err := r.writeOCIArchive(file, name, index); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// reference returns an image's name with registry and tag.
func (r *release) reference(name string) string {
	if r.registry != "" {
		name = strings.TrimSuffix(r.registry, "/") + "/" + name
	}
	return name + ":" + r.version
}

// writeOCIArchive writes an OCI image layout as an archive. The annotations hold its name for
// `skopeo copy --all oci-archive:FILE` and `ctr images import FILE`.
func (r *release) writeOCIArchive(file, name string, index v1.ImageIndex) (err error) {
	dir, err := os.MkdirTemp(r.programs(), "layout")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	path, err := layout.Write(dir, empty.Index)
	if err != nil {
		return err
	}
	if err := path.AppendIndex(index, layout.WithAnnotations(map[string]string{
		"org.opencontainers.image.ref.name": r.version,
		"io.containerd.image.name":          r.reference(name),
	})); err != nil {
		return err
	}
	entries, err := filesBelow(dir)
	if err != nil {
		return err
	}
	return writeTarGz(file, r.time, entries)
}

// filesBelow returns all regular files below a directory, sorted by name.
func filesBelow(dir string) (all []entry, err error) {
	err = filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		all = append(all, entry{name, path, 0o644})
		return err
	})
	return all, err
}
