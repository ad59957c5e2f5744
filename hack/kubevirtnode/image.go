package kubevirtnode

import (
	"cmp"
	"compress/gzip"
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"golang.org/x/sys/unix"

	"github.com/mooring-vm/mooring/hack/containerimage"
	"github.com/mooring-vm/mooring/hack/kubevirt"
	"github.com/mooring-vm/mooring/hack/throwaway/cache"
	"github.com/mooring-vm/mooring/hack/throwaway/child"
	"github.com/mooring-vm/mooring/hack/throwaway/image"
)

// imageName is the image of the chosen KubeVirt's virt-handler and virt-launcher. KubeVirt
// publishes two. One has less to unpack.
func imageName() string { return "localhost/kubevirt:" + kubevirt.Minor() }

// LockedBinding is a network binding of the cluster. Its QEMU locks the VM's memory, and KubeVirt
// grants no limit for it.
const LockedBinding = "locked"

// bindingImage is the sidecar of LockedBinding: KubeVirt's program and files/onDefineDomain.
func bindingImage() string { return "localhost/locked-binding:" + kubevirt.Minor() }

const (
	imageCache  = "kubevirt-image"
	imageFile   = "image.tar"
	imageRecipe = "3" // part of the key: change it when the build changes
	// path is the PATH of the image's programs.
	path = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
)

//go:embed files
var embedded embed.FS

// EnvSuite names the environment variable with the Debian release of virt-launcher's libvirt and
// QEMU. Empty: that of the nodes.
const EnvSuite = "MOORING_KUBEVIRT_SUITE"

func launcherSuite() string { return cmp.Or(os.Getenv(EnvSuite), image.OuterSuite) }

// packages of the image: the libvirt and QEMU of a Debian release, and the tools of virt-launcher.
func packages() []string {
	return []string{
		"libvirt-daemon", "libvirt-daemon-driver-qemu", "libvirt-clients", "qemu-system-x86",
		"qemu-utils", "seabios", "nftables", "iproute2", "procps",
	}
}

// unused are patterns of files in the packages that no VM of the tests needs. They are half of the
// image.
func unused() []string {
	return []string{
		"boot", "dev/*", "usr/include", "usr/share/zoneinfo", "usr/share/keyrings",
		"usr/share/qemu/edk2*", "usr/share/qemu/*.dtb", "usr/share/qemu/hppa*",
		"usr/share/qemu/openbios*", "usr/share/qemu/skiboot.lid", "usr/share/qemu/slof.bin",
		"usr/share/qemu/s390*", "usr/share/qemu/u-boot*", "usr/share/qemu/trace-events-all",
		"usr/share/OVMF", "usr/share/ovmf", "usr/share/i18n", "usr/share/bash-completion",
		"usr/share/perl*", "usr/lib/x86_64-linux-gnu/perl*", "usr/bin/perl*",
		"usr/lib/x86_64-linux-gnu/gconv", "usr/lib/x86_64-linux-gnu/libapt*",
		"usr/lib/x86_64-linux-gnu/libvirt_lxc.so", "usr/lib/apt", "usr/lib/systemd",
		"usr/lib/udev", "usr/lib/ipxe", "usr/lib/terminfo", "usr/bin/apt*",
		"usr/bin/qemu-system-i386", "usr/bin/qemu-system-x86_64-microvm", "usr/bin/qemu-nbd",
		"usr/bin/qemu-io", "usr/bin/qemu-storage-daemon", "usr/share/libvirt/cpu_map/arm*",
		"usr/share/libvirt/cpu_map/ppc*", "var/lib/apt", "var/lib/dpkg", "var/cache/*", "run/*",
	}
}

// directories of virt-launcher and virt-handler, for their mounts.
func directories() []string {
	return []string{
		"dev", "proc", "sys", "run", "pods", "init/usr/bin", "usr/lib64/qemu-kvm",
		"usr/libexec/kubevirt", "etc/virt-handler",
	}
}

// buildImage returns an archive of the image from the cache, or makes it.
func buildImage(ctx context.Context, b *builder) (*cache.Entry, error) {
	rootfs, err := b.debian.Rootfs(ctx, launcherSuite(), packages())
	if err != nil {
		return nil, err
	}
	defer rootfs.Close()
	programs, err := buildPrograms(ctx, b.log)
	if err != nil {
		return nil, err
	}
	defer programs.Close()
	files, err := imageFiles(programs.Dir)
	if err != nil {
		return nil, err
	}
	key := cache.KeyOf(imageRecipe, rootfs.Dir, files.Sum())
	return b.store.Get(ctx, imageCache, key, func(ctx context.Context, dir string) error {
		b.log.Info("making the image of virt-handler and virt-launcher, a minute")
		return makeImage(ctx, rootfs, files, dir)
	})
}

// imageFiles are the files of the image that come from no package.
func imageFiles(programs string) (image.Files, error) {
	files := image.Files{
		"usr/libexec/kubevirt/virtqemud": {Link: "../../sbin/libvirtd"},
		"etc/mtab":                       {Link: "../proc/self/mounts"},
		// virt-handler follows the link at /proc/PID/root. An absolute link would lead it into its
		// own container.
		"var/run": {Link: "../run"},
	}
	for name, to := range map[string]string{
		"passwd": "etc/passwd", "group": "etc/group", "virtqemud": "usr/sbin/virtqemud",
		"onDefineDomain": "usr/bin/onDefineDomain",
	} {
		content, err := embedded.ReadFile("files/" + name)
		if err != nil {
			return nil, err
		}
		files[to] = image.File{Content: content, Mode: 0o644}
	}
	if err := addTree(files, filepath.Join(programs, imageDir)); err != nil {
		return nil, err
	}
	for _, script := range []string{"usr/sbin/virtqemud", "usr/bin/onDefineDomain"} {
		f := files[script]
		f.Mode = 0o755
		files[script] = f
	}
	return files, nil
}

// addTree adds the files below a directory.
func addTree(files image.Files, tree string) error {
	return filepath.WalkDir(tree, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		to, err := filepath.Rel(tree, path)
		files[to] = image.File{Content: content, Mode: 0o755}
		return err
	})
}

func makeImage(ctx context.Context, rootfs *cache.Entry, files image.Files, dir string) error {
	if os.Geteuid() != 0 {
		return errors.New("making an image needs root")
	}
	tree := filepath.Join(dir, "tree")
	// Hard links: Place removes a file before it writes.
	if err := run(child.Isolated(ctx, "cp", "-al", image.Tree(rootfs), tree)); err != nil {
		return err
	}
	if err := trim(tree); err != nil {
		return err
	}
	if err := files.Place(tree); err != nil {
		return err
	}
	if err := addCapability(filepath.Join(tree, "usr/bin/virt-launcher-monitor")); err != nil {
		return err
	}
	// As the user qemu, virt-launcher replaces libvirt's hook by a link to this client.
	if _, ok := files["usr/bin/libvirt-hook-client"]; ok {
		const qemu = 107
		if err := os.Chown(filepath.Join(tree, "etc/libvirt/hooks"), qemu, qemu); err != nil {
			return err
		}
	}
	layer := filepath.Join(dir, "layer.tar")
	if err := run(child.Isolated(ctx, "tar", "--numeric-owner", "--sort=name", "--xattrs",
		"--xattrs-include=security.capability", "-C", tree, "-cf", layer, ".")); err != nil {
		return err
	}
	if err := writeImage(layer, filepath.Join(dir, imageFile)); err != nil {
		return err
	}
	return errors.Join(os.RemoveAll(tree), os.Remove(layer))
}

func trim(tree string) error {
	for _, pattern := range unused() {
		found, err := filepath.Glob(filepath.Join(tree, pattern))
		if err != nil {
			return err
		}
		for _, path := range found {
			if err := os.RemoveAll(path); err != nil {
				return err
			}
		}
	}
	for _, name := range directories() {
		if err := os.MkdirAll(filepath.Join(tree, name), 0o755); err != nil {
			return err
		}
	}
	return nil
}

// addCapability sets the file capability of KubeVirt's image: cap_net_bind_service=ep. Without it
// virt-launcher-monitor, which does not run as root, cannot start virt-launcher.
func addCapability(file string) error {
	const revision2, effective, netBindService = 0x02, 0x01, 1 << 2
	value := make([]byte, 20) // struct vfs_cap_data, little endian
	value[0], value[3] = effective, revision2
	value[4], value[5] = 0, netBindService
	if err := unix.Setxattr(file, "security.capability", value, 0); err != nil {
		return fmt.Errorf("setting the capability of %s: %w", filepath.Base(file), err)
	}
	return nil
}

// writeImage writes an archive of both images, which share a layer. It does not compress, because
// the node unpacks the layer at once.
func writeImage(layer, file string) error {
	l, err := tarball.LayerFromFile(layer, tarball.WithCompressionLevel(gzip.NoCompression))
	if err != nil {
		return err
	}
	img, err := containerimage.New(v1.Config{Env: []string{path}}, l)
	if err != nil {
		return err
	}
	binding, err := containerimage.New(v1.Config{Env: []string{path},
		Entrypoint: []string{"sidecars", "--version=v1alpha3"}}, l)
	if err != nil {
		return err
	}
	return containerimage.Write(file, map[string]v1.Image{imageName(): img,
		bindingImage(): binding})
}
