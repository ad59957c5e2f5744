// Package guest is a throw-away node with docker and kind, for machines without docker. The node is
// saved with a cluster in it and resumed for each use.
package guest

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/mooring-vm/mooring/hack/kindcluster/nodeimage"
	"github.com/mooring-vm/mooring/hack/kindcluster/tools"
	"github.com/mooring-vm/mooring/hack/kube"
	"github.com/mooring-vm/mooring/hack/throwaway/cache"
	"github.com/mooring-vm/mooring/hack/throwaway/child"
	"github.com/mooring-vm/mooring/hack/throwaway/image"
)

const (
	diskCache     = "kind-disk"
	diskFile      = "disk.ext4"
	diskSize      = "30G" // sparse
	initramfsFile = "initramfs"
	diskRecipe    = "1" // part of the key: change it when the build changes
)

// importScript imports the node image into docker's store.
//
//go:embed import.sh
var importScript string

// dockerWrapper makes `docker run` wait for the systemd of a kind node.
//
//go:embed files/docker
var dockerWrapper []byte

// packages of the node. The first group is what the tests' node has, too.
func packages() []string {
	return []string{
		"systemd", "systemd-sysv", "dbus", "kmod", "linux-image-cloud-amd64", "iptables",
		"nftables", "ca-certificates", "iproute2", "util-linux", "procps", "mount",
		"busybox-static", "docker.io", "docker-cli",
	}
}

// disk is a node's disk with docker, kind and the node image, and what boots it.
type disk struct {
	image     image.Image
	initramfs string
	key       cache.Key
	entries   []*cache.Entry
}

// builder makes disks.
type builder struct {
	store  *cache.Store
	debian *image.Builder
	log    *slog.Logger
}

// disk returns the disk from the cache, or builds it.
func (b *builder) disk(ctx context.Context, node *nodeimage.Image) (_ *disk, err error) {
	d := &disk{}
	defer func() {
		if err != nil {
			err = errors.Join(err, cache.CloseAll(d.entries...))
		}
	}()
	rootfs, err := d.keep(b.debian.Rootfs(ctx, image.OuterSuite, packages()))
	if err != nil {
		return nil, err
	}
	outer, err := d.keep(b.debian.Outer(ctx))
	if err != nil {
		return nil, err
	}
	files, err := b.files(ctx, d)
	if err != nil {
		return nil, err
	}
	d.key = cache.KeyOf(diskRecipe, rootfs.Dir, string(node.Key), files.Sum(), importScript)
	entry, err := d.keep(b.store.Get(ctx, diskCache, d.key,
		func(ctx context.Context, dir string) error {
			b.log.Info("making the disk for kind, about a minute")
			return b.make(ctx, rootfs, node, files, dir)
		}))
	if err != nil {
		return nil, err
	}
	d.image = image.Image{Kernel: image.Kernel(rootfs), QEMU: image.Tree(outer),
		Disk: filepath.Join(entry.Dir, diskFile)}
	d.initramfs = filepath.Join(entry.Dir, initramfsFile)
	_, err = b.store.Prune(diskCache, 1)
	return d, err
}

// keep closes the entry with the disk.
func (d *disk) keep(e *cache.Entry, err error) (*cache.Entry, error) {
	if err == nil {
		d.entries = append(d.entries, e)
	}
	return e, err
}

// files returns the files of the node except packages and docker's store.
func (b *builder) files(ctx context.Context, d *disk) (image.Files, error) {
	set, err := b.debian.ChannelFiles(ctx)
	if err != nil {
		return nil, err
	}
	for path, content := range map[string]string{
		"etc/hostname":    "kind\n",
		"etc/hosts":       "127.0.0.1 localhost kind\n::1 localhost\n",
		"etc/resolv.conf": "nameserver 10.0.2.3\n",
		"etc/machine-id":  "",
		"etc/fstab":       "/dev/vda / ext4 rw,noatime 0 0\n",

		"etc/docker/daemon.json": `{"storage-driver": "overlay2", "log-driver": "json-file"}` + "\n",
		"etc/sysctl.d/90-kind.conf": "fs.inotify.max_user_watches=524288\n" +
			"fs.inotify.max_user_instances=512\n",
	} {
		set[path] = image.File{Content: []byte(content), Mode: 0o644}
	}
	set["usr/local/bin/docker"] = image.File{Content: dockerWrapper, Mode: 0o755}
	for _, unit := range []string{
		"apt-daily.timer", "apt-daily-upgrade.timer", "dpkg-db-backup.timer",
		"e2scrub_all.timer", "e2scrub_reap.service", "fstrim.timer",
		"systemd-timesyncd.service", "getty@tty1.service", "serial-getty@ttyS0.service",
	} {
		set["etc/systemd/system/"+unit] = image.File{Link: "/dev/null"}
	}
	return set, b.addPrograms(ctx, d, set)
}

func (b *builder) addPrograms(ctx context.Context, d *disk, set image.Files) error {
	kind, err := d.keep(tools.Build(ctx, b.log))
	if err != nil {
		return err
	}
	programs, err := d.keep(kube.Build(ctx, b.log))
	if err != nil {
		return err
	}
	for to, from := range map[string]string{
		"usr/local/bin/kind":    tools.Kind(kind),
		"usr/local/bin/kubectl": filepath.Join(programs.Dir, "kubectl"),
	} {
		content, err := os.ReadFile(from)
		if err != nil {
			return err
		}
		set[to] = image.File{Content: content, Mode: 0o755}
	}
	return nil
}

func (b *builder) make(
	ctx context.Context, rootfs *cache.Entry, node *nodeimage.Image, files image.Files, dir string,
) error {
	if os.Geteuid() != 0 {
		return errors.New("making the disk for kind needs root")
	}
	initramfs, err := image.Initramfs(ctx, image.Tree(rootfs))
	if err != nil {
		return fmt.Errorf("making the initramfs: %w", err)
	}
	if err := os.WriteFile(filepath.Join(dir, initramfsFile), initramfs, 0o644); err != nil {
		return err
	}
	tree := filepath.Join(dir, "tree")
	if err := b.run(ctx, "cp", "-al", image.Tree(rootfs), tree); err != nil {
		return err
	}
	if err := files.Place(tree); err != nil {
		return err
	}
	if err := b.importImage(ctx, tree, node); err != nil {
		return fmt.Errorf("importing the node image into docker: %w", err)
	}
	if err := b.debian.Disk(ctx, tree, filepath.Join(dir, diskFile), diskSize); err != nil {
		return err
	}
	return os.RemoveAll(tree)
}

func (b *builder) run(ctx context.Context, name string, args ...string) error {
	return child.Run(child.Isolated(ctx, name, args...))
}

// importImage runs importScript in namespaces of its own. They end with it, its mounts and its
// dockerd included.
func (b *builder) importImage(ctx context.Context, tree string, node *nodeimage.Image) error {
	archive, err := os.Open(node.Archive)
	if err != nil {
		return err
	}
	defer archive.Close()
	args := append([]string{"--net", "sh", "-c", importScript, "import.sh", tree,
		node.Reference}, nodeimage.Changes()...)
	cmd := child.Isolated(ctx, "unshare", args...)
	cmd.Stdin = archive
	var log tail
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := child.Run(cmd); err != nil {
		return fmt.Errorf("%w\n%s", err, log.b)
	}
	return nil
}

// tail keeps the last 8 KiB.
type tail struct{ b []byte }

func (t *tail) Write(p []byte) (int, error) {
	t.b = append(t.b, p...)
	t.b = t.b[max(0, len(t.b)-8192):]
	return len(p), nil
}
