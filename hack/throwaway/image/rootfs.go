package image

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/mooring-vm/mooring/hack/throwaway/cache"
	"github.com/mooring-vm/mooring/hack/throwaway/child"
)

// A rootfs entry holds the unpacked root file system and its kernel.
const (
	// RootfsName is the name of the cache entries with Debian packages. `hack/node clean` removes
	// them.
	RootfsName = "rootfs"

	treeDir    = "root"
	kernelFile = "vmlinux"
)

// rootfsRecipe is part of the key of every root file system. Change it when the build changes.
const rootfsRecipe = "2"

func (b *Builder) rootfs(ctx context.Context, spec Spec) (*cache.Entry, error) {
	return b.Rootfs(ctx, spec.Suite, spec.packages())
}

// Rootfs returns a root file system with these packages of a Debian release. Tree is its path. If a
// kernel is among the packages, Kernel is its image. It needs root for a new one.
func (b *Builder) Rootfs(
	ctx context.Context, suite string, packages []string,
) (*cache.Entry, error) {
	list := strings.Join(packages, ",")
	key := cache.KeyOf(rootfsRecipe, suite, list)
	return b.store.Get(ctx, RootfsName, key, func(ctx context.Context, dir string) error {
		if err := checkRoot("the node's root file system"); err != nil {
			return err
		}
		b.log.Info("unpacking the node's root file system, about a minute", "suite", suite)
		if err := b.mmdebstrap(ctx, suite, list, filepath.Join(dir, treeDir)); err != nil {
			return err
		}
		return extractKernel(filepath.Join(dir, treeDir), filepath.Join(dir, kernelFile))
	})
}

// Outer returns the root file system with the QEMU that runs nodes.
func (b *Builder) Outer(ctx context.Context) (*cache.Entry, error) {
	return b.rootfs(ctx, Spec{Suite: OuterSuite, Containerd: DefaultSpec().Containerd})
}

// Tree is the tree of an entry of Rootfs.
func Tree(rootfs *cache.Entry) string { return filepath.Join(rootfs.Dir, treeDir) }

// Kernel is the uncompressed kernel of an entry of Rootfs.
func Kernel(rootfs *cache.Entry) string { return filepath.Join(rootfs.Dir, kernelFile) }

// Keyring has Debian's keys, which Ubuntu's apt does not trust. Without gpg, mmdebstrap finds the
// keyring only by its option.
const Keyring = "/usr/share/keyrings/debian-archive-keyring.gpg"

// Mmdebstrap returns the arguments of mmdebstrap for a system with these packages, without the
// target directory. They name no mirror: mmdebstrap has one for each Debian release, and uses an
// apt proxy of this machine.
func Mmdebstrap(suite, packages string) []string {
	args := []string{
		"--mode=root", "--variant=minbase", "--quiet", "--keyring=" + Keyring,
		"--include=" + packages,
		`--aptopt=Apt::Install-Recommends "false"`,
		`--aptopt=APT::Sandbox::User "root"`,
		// The Release file of testing is often expired.
		`--aptopt=Acquire::Check-Valid-Until "false"`,
		`--aptopt=Acquire::Retries "3"`,
	}
	for _, dir := range []string{"doc", "man", "locale", "info", "lintian"} {
		args = append(args, "--dpkgopt=path-exclude=/usr/share/"+dir+"/*")
	}
	return append(args, suite)
}

func (b *Builder) mmdebstrap(ctx context.Context, suite, packages, tree string) error {
	cmd := child.Isolated(ctx, "mmdebstrap", append(Mmdebstrap(suite, packages), tree)...)
	// the node boots without an initrd
	cmd.Env = append(os.Environ(), "INITRD=No", "LC_ALL=C.UTF-8")
	if err := b.run(cmd); err != nil {
		return fmt.Errorf("unpacking Debian %s: %w", suite, err)
	}
	return nil
}
