package main

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// folder is the directory of the programs in an image.
const folder = "/usr/local/bin"

// unprivileged is the user of images that run without root.
const unprivileged = "65532:65532"

// recipe describes an image. Its programs are static, or load libvirt's client library from a layer
// below them.
type recipe struct {
	name     string
	programs []string // the first one is the entry point
	user     string   // root if empty
	libvirt  bool
}

func recipes() []recipe {
	return []recipe{
		{name: "mooring-agent", programs: []string{"mooring-agent", "mooring", "mooring-hook"}},
		{name: "mooring-controller", programs: []string{"mooring-controller", "mooring"},
			user: unprivileged},
		{name: "mooring-shim", programs: []string{"mooring-shim"}, user: unprivileged,
			libvirt: true},
	}
}

// image makes the image from the programs in the directory bin.
func (r recipe) image(ctx context.Context, bin, arch string, log *slog.Logger) (v1.Image, error) {
	trees, err := r.trees(ctx, bin, arch, log)
	if err != nil {
		return nil, err
	}
	image := empty.Image
	for _, t := range trees {
		layer, err := t.layer()
		if err != nil {
			return nil, err
		}
		if image, err = mutate.AppendLayers(image, layer); err != nil {
			return nil, err
		}
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Config = "linux", arch, r.config()
	return mutate.ConfigFile(image, config)
}

// trees are the contents of the image's layers, the lowest first.
func (r recipe) trees(ctx context.Context, bin, arch string, log *slog.Logger) ([]tree, error) {
	if !r.libvirt {
		programs, err := r.tree(bin, nil)
		return []tree{programs}, err
	}
	libraries, err := libvirtTree(ctx, arch, log)
	if err != nil {
		return nil, err
	}
	programs, err := r.tree(bin, libraries)
	return []tree{libraries, programs}, err
}

func (t tree) layer() (v1.Layer, error) {
	content, err := t.archive()
	if err != nil {
		return nil, err
	}
	return tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(content)), nil
	}, tarball.WithCompressedCaching)
}

func (r recipe) config() v1.Config {
	return v1.Config{
		User:       r.user,
		Env:        []string{"PATH=" + folder},
		Entrypoint: []string{filepath.Join(folder, r.programs[0])},
		WorkingDir: "/",
		Labels: map[string]string{
			"org.opencontainers.image.title":    r.name,
			"org.opencontainers.image.source":   "https://github.com/mooring-vm/mooring",
			"org.opencontainers.image.licenses": "Apache-2.0",
		},
	}
}
