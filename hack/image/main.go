// Command image makes Mooring's container images from the programs in bin/, without a daemon.
// `docker load`, `ctr images import` and `crane push` read its files. The images have no base
// image. That of mooring-shim contains Debian's packages of libvirt's client library. Identical
// programs and packages give identical images.
//
//	go run ./hack/image --tag=TAG [--registry=REGISTRY] [--out=DIR] [--only=IMAGE,...]
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// options are the command-line options.
type options struct {
	bin, out, registry, tag, arch, only string
}

func main() {
	var o options
	flag.StringVar(&o.bin, "bin", "bin", "directory of the programs")
	flag.StringVar(&o.out, "out", "bin/images", "directory for the images")
	flag.StringVar(&o.registry, "registry", "", "prefix of the images' names, without the slash")
	flag.StringVar(&o.tag, "tag", "", "tag of the images (required)")
	flag.StringVar(&o.arch, "arch", runtime.GOARCH, "architecture of the programs, as GOARCH")
	flag.StringVar(&o.only, "only", "", "make only these images, such as "+
		"mooring-agent,mooring-controller, which need no packages")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, o, slog.New(slog.NewTextHandler(os.Stderr, nil)))
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

// run writes the images, and prints name, digest and file of each.
func run(ctx context.Context, o options, log *slog.Logger) error {
	if o.tag == "" {
		return errors.New("--tag: want a version, such as v0.2.0")
	}
	chosen, err := o.recipes()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(o.out, 0o755); err != nil {
		return err
	}
	for _, r := range chosen {
		digest, path, err := write(ctx, r, o, log)
		if err != nil {
			return fmt.Errorf("make image %s: %w", r.name, err)
		}
		fmt.Println(o.reference(r.name), digest, path)
	}
	return nil
}

func (o options) recipes() (chosen []recipe, err error) {
	all := recipes()
	if o.only == "" {
		return all, nil
	}
	for want := range strings.SplitSeq(o.only, ",") {
		at := slices.IndexFunc(all, func(r recipe) bool { return r.name == want })
		if at < 0 {
			return nil, fmt.Errorf("--only %q: want some of %s", o.only,
				strings.Join(names(all), ","))
		}
		chosen = append(chosen, all[at])
	}
	return chosen, nil
}

func names(recipes []recipe) (all []string) {
	for _, r := range recipes {
		all = append(all, r.name)
	}
	return all
}

func write(
	ctx context.Context, r recipe, o options, log *slog.Logger,
) (digest, path string, err error) {
	tag, err := name.NewTag(o.reference(r.name))
	if err != nil {
		return "", "", err
	}
	image, err := r.image(ctx, o.bin, o.arch, log)
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
