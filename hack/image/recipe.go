package main

import (
	"bytes"
	"io"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// folder is where programs are in an image.
const folder = "/usr/local/bin"

// nobody is the user of images that need no root.
const nobody = "65532:65532"

// recipe is an image of static programs.
type recipe struct {
	name     string
	programs []string // the first one is what the image runs
	user     string   // empty: root
}

// recipes are those of all images. mooring-shim loads libvirt and is not among them:
// deploy/kubernetes/Dockerfile.shim has a base for it.
func recipes() []recipe {
	return []recipe{
		{name: "mooring-agent", programs: []string{"mooring-agent", "mooring", "mooring-hook"}},
		{name: "mooring-controller", programs: []string{"mooring-controller", "mooring"}, user: nobody},
	}
}

// image makes the image of programs in the folder bin.
func (r recipe) image(bin, arch string) (v1.Image, error) {
	content, err := r.layer(bin)
	if err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(content)), nil
	})
	if err != nil {
		return nil, err
	}
	image, err := mutate.AppendLayers(empty.Image, layer)
	if err != nil {
		return nil, err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Config = "linux", arch, r.config()
	return mutate.ConfigFile(image, config)
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
