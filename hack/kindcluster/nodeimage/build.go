// Package nodeimage builds a node image for kind from Debian packages and Go modules, without a
// registry. Its content follows kind's own Dockerfile. Differences: containerd's configuration is
// of version 3, the control plane has no liveness probes, and there is no CoreDNS.
package nodeimage

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/mooring-vm/mooring/hack/kindcluster/tools"
	"github.com/mooring-vm/mooring/hack/kube"
	"github.com/mooring-vm/mooring/hack/throwaway/cache"
	"github.com/mooring-vm/mooring/hack/throwaway/child"
	"github.com/mooring-vm/mooring/hack/throwaway/image"
)

const (
	cacheName = "kind-node"
	archive   = "node.tar"
	recipe    = "2" // part of the key: change it when the build changes
)

// Name is the prefix of the image's name in docker. The version of Kubernetes is its tag.
const Name = "kindest/node"

// Image is a node image.
type Image struct {
	// Archive is a tar archive of the root file system, for `docker import`.
	Archive string
	// Reference is the image's name in docker.
	Reference string
	// Key changes whenever the content of the image does.
	Key   cache.Key
	entry *cache.Entry
}

// Close allows the cache to remove the image's file.
func (i *Image) Close() error { return i.entry.Close() }

// Changes are arguments of `docker import` that set the image's configuration.
func Changes() []string {
	return []string{
		`--change=ENTRYPOINT ["/usr/local/bin/entrypoint", "/sbin/init"]`,
		"--change=ENV container=docker",
		"--change=ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		"--change=STOPSIGNAL SIGRTMIN+3",
	}
}

// Builder makes node images. It is safe for concurrent use.
type Builder struct {
	Store *cache.Store
	// Debian makes root file systems and containerd.
	Debian *image.Builder
	Log    *slog.Logger
}

// parts are the inputs of an image.
type parts struct {
	rootfs, kube, containerd, tools *cache.Entry
}

func (p parts) all() []*cache.Entry {
	return []*cache.Entry{p.rootfs, p.kube, p.containerd, p.tools}
}

func (p parts) close() error { return cache.CloseAll(p.all()...) }

// packages lists the packages of kind's Dockerfile, except those for unused file systems.
func packages() []string {
	return []string{
		"systemd", "conntrack", "iptables", "nftables", "iproute2", "ethtool", "util-linux",
		"mount", "kmod", "libseccomp2", "e2fsprogs", "bash", "ca-certificates", "curl", "jq",
		"procps", "socat", "runc", "busybox-static",
	}
}

// parts builds all inputs at once.
func (b *Builder) parts(ctx context.Context) (p parts, err error) {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() (err error) {
		p.rootfs, err = b.Debian.Rootfs(ctx, image.OuterSuite, packages())
		return err
	})
	g.Go(func() (err error) {
		p.kube, err = kube.Build(ctx, b.Log)
		return err
	})
	g.Go(func() (err error) {
		p.containerd, err = b.Debian.Containerd(ctx)
		return err
	})
	g.Go(func() (err error) {
		p.tools, err = tools.Build(ctx, b.Log)
		return err
	})
	if err := g.Wait(); err != nil {
		return parts{}, errors.Join(err, p.close())
	}
	return p, nil
}

// Build returns the image from the cache, or builds it, which takes some minutes and needs root.
func (b *Builder) Build(ctx context.Context) (_ *Image, err error) {
	p, err := b.parts(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, p.close()) }()
	version, err := os.ReadFile(filepath.Join(p.kube.Dir, kube.VersionFile))
	if err != nil {
		return nil, err
	}
	files, err := filesOf(ctx, p, string(version))
	if err != nil {
		return nil, err
	}
	keys := []string{recipe, files.Sum(), pauseSource}
	for _, e := range p.all() {
		keys = append(keys, e.Dir)
	}
	key := cache.KeyOf(keys...)
	entry, err := b.Store.Get(ctx, cacheName, key, func(ctx context.Context, dir string) error {
		b.Log.Info("making kind's node image, about a minute", "kubernetes", string(version))
		return b.make(ctx, p, files, dir)
	})
	if err != nil {
		return nil, err
	}
	if _, err := b.Store.Prune(cacheName, 1); err != nil {
		return nil, fmt.Errorf("removing old node images: %w", err)
	}
	return &Image{Archive: filepath.Join(entry.Dir, archive), Reference: Name + ":" +
		string(version), Key: key, entry: entry}, nil
}

// make builds the tree of the image in dir, packs it and removes it.
func (b *Builder) make(ctx context.Context, p parts, files image.Files, dir string) error {
	if os.Geteuid() != 0 {
		return errors.New("making a node image needs root")
	}
	tree := filepath.Join(dir, "tree")
	// Hard links: Place removes a file before it writes.
	if err := run(ctx, "cp", "-al", image.Tree(p.rootfs), tree); err != nil {
		return err
	}
	if err := removeUnits(tree); err != nil {
		return err
	}
	if err := files.Place(tree); err != nil {
		return err
	}
	images := filepath.Join(dir, "images.tar")
	if err := writeImages(ctx, p, tree, images); err != nil {
		return fmt.Errorf("making the images of the control plane: %w", err)
	}
	if err := image.Preload(ctx, p.containerd.Dir, tree, images); err != nil {
		return fmt.Errorf("importing the images of the control plane: %w", err)
	}
	if err := run(ctx, "tar", "--numeric-owner", "--xattrs", "--xattrs-include=*", "-C", tree,
		"-cf", filepath.Join(dir, archive), "."); err != nil {
		return err
	}
	return errors.Join(os.RemoveAll(tree), os.Remove(images))
}

// run runs a command. Its output becomes part of the error.
func run(ctx context.Context, name string, args ...string) error {
	_, err := output(child.Isolated(ctx, name, args...))
	return err
}

func output(cmd *exec.Cmd) (string, error) {
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := child.Run(cmd); err != nil {
		return "", fmt.Errorf("%s: %w\n%s", filepath.Base(cmd.Path), err, stderr.String())
	}
	return stdout.String(), nil
}
