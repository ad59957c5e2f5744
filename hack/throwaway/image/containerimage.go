package image

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// BusyboxImage is the node's only container image, also for sandboxes: a second one would make each
// start longer. It contains a shell and common tools. Without a command it sleeps. It contains the
// static busybox of the node's root file system, so the node pulls no image.
const BusyboxImage = "localhost/busybox:1"

func addImage(set Files, tree string) error {
	busybox, err := os.ReadFile(filepath.Join(tree, "usr", "bin", "busybox"))
	if err != nil {
		return err
	}
	archive, err := busyboxImage(busybox)
	if err != nil {
		return fmt.Errorf("making container image %s: %w", BusyboxImage, err)
	}
	set[imageArchive] = File{Content: archive, Mode: 0o644}
	return nil
}

func busyboxImage(busybox []byte) ([]byte, error) {
	tag, err := name.NewTag(BusyboxImage)
	if err != nil {
		return nil, err
	}
	layer, err := busyboxLayer(busybox)
	if err != nil {
		return nil, err
	}
	img, err := mutate.AppendLayers(empty.Image, layer)
	if err != nil {
		return nil, err
	}
	base, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	base = base.DeepCopy()
	base.Architecture, base.OS = "amd64", "linux"
	base.Config = v1.Config{Env: []string{"PATH=/bin"}, Cmd: []string{"/bin/sleep", "2147483647"}}
	if img, err = mutate.ConfigFile(img, base); err != nil {
		return nil, err
	}
	var out bytes.Buffer
	err = tarball.Write(tag, img, &out)
	return out.Bytes(), err
}

func applets() []string {
	return []string{
		"sh", "cat", "cp", "date", "dd", "echo", "env", "grep", "head", "id", "kill", "ln",
		"ls", "mkdir",
		"mount", "nc", "ps", "rm", "sed", "seq", "sleep", "stat", "tail", "test", "touch",
		"true", "wc",
	}
}

// busyboxLayer returns identical bytes for the same busybox.
func busyboxLayer(busybox []byte) (v1.Layer, error) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	headers := []*tar.Header{
		{Name: "bin/", Typeflag: tar.TypeDir, Mode: 0o755},
		{Name: "etc/", Typeflag: tar.TypeDir, Mode: 0o755},
		{Name: "tmp/", Typeflag: tar.TypeDir, Mode: 0o1777},
		{Name: "bin/busybox", Typeflag: tar.TypeReg, Mode: 0o755, Size: int64(len(busybox))},
	}
	for _, a := range applets() {
		headers = append(headers, &tar.Header{Name: "bin/" + a, Typeflag: tar.TypeSymlink,
			Linkname: "busybox"})
	}
	for _, h := range headers {
		h.ModTime = time.Unix(0, 0)
		if err := w.WriteHeader(h); err != nil {
			return nil, err
		}
		if h.Typeflag == tar.TypeReg {
			if _, err := w.Write(busybox); err != nil {
				return nil, err
			}
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(b.Bytes())), nil
	})
}
