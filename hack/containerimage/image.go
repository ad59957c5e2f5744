// Package containerimage makes container images for test clusters, without a daemon.
package containerimage

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"io"
	"maps"
	"path"
	"slices"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/mooring-vm/mooring/hack/throwaway/image"
)

// New returns an image of these layers, the lowest first, for amd64.
func New(config v1.Config, layers ...v1.Layer) (v1.Image, error) {
	img, err := mutate.AppendLayers(empty.Image, layers...)
	if err != nil {
		return nil, err
	}
	file, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	file = file.DeepCopy()
	file.OS, file.Architecture, file.Config = "linux", "amd64", config
	return mutate.ConfigFile(img, file)
}

// Write writes an archive of images by their references, as `docker save` does.
func Write(file string, images map[string]v1.Image) error {
	tags := map[name.Tag]v1.Image{}
	for reference, img := range images {
		tag, err := name.NewTag(reference)
		if err != nil {
			return err
		}
		tags[tag] = img
	}
	return tarball.MultiWriteToFile(file, tags)
}

// Layer packs files and their directories. It does not compress, because a cluster of this machine
// unpacks the layer at once. Identical files give identical layers.
func Layer(files image.Files) (v1.Layer, error) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	dirs := map[string]bool{}
	for _, to := range slices.Sorted(maps.Keys(files)) {
		if err := addDirs(w, dirs, path.Dir(to)); err != nil {
			return nil, err
		}
		f := files[to]
		h := &tar.Header{Name: to, Mode: int64(f.Mode), Size: int64(len(f.Content))}
		if f.Link != "" {
			h.Typeflag, h.Linkname = tar.TypeSymlink, f.Link
		}
		if err := w.WriteHeader(h); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.Content); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(b.Bytes())), nil
	}, tarball.WithCompressionLevel(gzip.NoCompression))
}

func addDirs(w *tar.Writer, done map[string]bool, dir string) error {
	if dir == "." || done[dir] {
		return nil
	}
	if err := addDirs(w, done, path.Dir(dir)); err != nil {
		return err
	}
	done[dir] = true
	return w.WriteHeader(&tar.Header{Name: dir + "/", Typeflag: tar.TypeDir, Mode: 0o755})
}
