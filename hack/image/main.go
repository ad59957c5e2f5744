// Command image makes Mooring's container images of the programs in bin/, without a daemon
// and without a base: a file for each that `docker load`, `ctr images import` and
// `crane push` take. The same programs give the same image to the byte.
//
//	go run ./hack/image [--tag=TAG] [--registry=REGISTRY] [--out=DIR]
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// options are the command line.
type options struct {
	bin, out, registry, tag, arch string
}

func main() {
	var o options
	flag.StringVar(&o.bin, "bin", "bin", "folder of the programs")
	flag.StringVar(&o.out, "out", "bin/images", "folder to write to")
	flag.StringVar(&o.registry, "registry", "", "put before the names of images, with a slash between")
	flag.StringVar(&o.tag, "tag", "latest", "tag of the images")
	flag.StringVar(&o.arch, "arch", runtime.GOARCH, "what the programs are built for, as GOARCH")
	flag.Parse()
	if err := run(o); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

// run writes all images, and prints of each the name, the digest and the file.
func run(o options) error {
	if err := os.MkdirAll(o.out, 0o755); err != nil {
		return err
	}
	for _, r := range recipes() {
		digest, path, err := write(r, o)
		if err != nil {
			return fmt.Errorf("make image %s: %w", r.name, err)
		}
		fmt.Println(o.reference(r.name), digest, path)
	}
	return nil
}

func write(r recipe, o options) (digest, path string, err error) {
	tag, err := name.NewTag(o.reference(r.name))
	if err != nil {
		return "", "", err
	}
	image, err := r.image(o.bin, o.arch)
	if err != nil {
		return "", "", err
	}
	hash, err := image.Digest()
	if err != nil {
		return "", "", err
	}
	path = filepath.Join(o.out, r.name+".tar")
	return hash.String(), path, tarball.WriteToFile(path, tag, image)
}

func (o options) reference(name string) string {
	reference := name + ":" + o.tag
	if o.registry != "" {
		reference = strings.TrimSuffix(o.registry, "/") + "/" + reference
	}
	return reference
}
