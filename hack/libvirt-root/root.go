package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/mooring-vm/mooring/hack/throwaway/cache"
	"github.com/mooring-vm/mooring/hack/throwaway/child"
	"github.com/mooring-vm/mooring/hack/throwaway/image"
)

// root returns the path of the root file system, and makes it if it is not cached.
func root(ctx context.Context, suite string, log *slog.Logger) (string, error) {
	if err := (image.Spec{Suite: suite,
		Containerd: image.DistributionContainerd}).Validate(); err != nil {
		return "", err
	}
	store, err := cache.Default()
	if err != nil {
		return "", err
	}
	args := image.Mmdebstrap(suite, packages)
	entry, err := store.LogTo(log).Get(ctx, image.RootfsName,
		cache.KeyOf(append(args, programs()...)...), func(ctx context.Context, dir string) error {
			log.Info("unpacking libvirt and QEMU, half a minute", "suite", suite)
			return unpack(ctx, suite, args, dir)
		})
	if err != nil {
		return "", err
	}
	return entry.Dir, entry.Close()
}

// packages are libvirt's daemon and QEMU.
const packages = "libvirt-daemon,libvirt-daemon-driver-qemu,qemu-system-x86"

// programs are the programs of the tests.
func programs() []string { return []string{"usr/sbin/libvirtd", "usr/bin/qemu-system-x86_64"} }

func unpack(ctx context.Context, suite string, args []string, dir string) error {
	if os.Geteuid() != 0 {
		return errors.New("making a root file system needs root")
	}
	if _, err := exec.LookPath("mmdebstrap"); err != nil {
		return fmt.Errorf("%w; on Debian and Ubuntu `hack/setup node` installs it", err)
	}
	out, err := output(child.Isolated(ctx, "mmdebstrap", append(args, dir)...))
	if err != nil {
		return fmt.Errorf("unpacking Debian %s: mmdebstrap: %w\n%s", suite, err, out)
	}
	for _, program := range programs() {
		if _, err := os.Stat(filepath.Join(dir, program)); err != nil {
			return fmt.Errorf("the packages of Debian %s lack a program: %w", suite, err)
		}
	}
	return nil
}

func output(cmd *exec.Cmd) (string, error) {
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.Env = append(os.Environ(), "LC_ALL=C.UTF-8")
	err := child.Run(cmd)
	return strings.TrimSpace(out.String()), err
}
