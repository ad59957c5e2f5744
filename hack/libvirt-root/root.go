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

// entryName is that of the node's root file systems: `hack/node clean` drops these with
// them.
const entryName = "rootfs"

// root makes what is not cached. Others may do the same meanwhile.
func root(ctx context.Context, suite string, log *slog.Logger) (string, error) {
	if err := (image.Spec{Suite: suite, Containerd: image.DistributionContainerd}).Validate(); err != nil {
		return "", err
	}
	store, err := cache.Default()
	if err != nil {
		return "", err
	}
	args := arguments(suite)
	entry, err := store.LogTo(log).Get(ctx, entryName, cache.KeyOf(append(args, programs()...)...), func(ctx context.Context, dir string) error {
		log.Info("unpacking libvirt and QEMU, half a minute", "suite", suite)
		return unpack(ctx, suite, args, dir)
	})
	if err != nil {
		return "", err
	}
	return entry.Dir, entry.Close()
}

// arguments name no mirror: mmdebstrap knows the one of each Debian release, and an apt
// proxy of the machine applies.
func arguments(suite string) []string {
	args := []string{
		"--mode=root", "--variant=minbase", "--quiet",
		// mmdebstrap finds it by itself only where gpg is installed
		"--keyring=/usr/share/keyrings/debian-archive-keyring.gpg",
		"--include=libvirt-daemon,libvirt-daemon-driver-qemu,qemu-system-x86",
		`--aptopt=Apt::Install-Recommends "false"`,
		`--aptopt=APT::Sandbox::User "root"`,
		// testing's Release file is often past its date
		`--aptopt=Acquire::Check-Valid-Until "false"`,
		`--aptopt=Acquire::Retries "3"`,
	}
	for _, dir := range []string{"doc", "man", "locale", "info", "lintian"} {
		args = append(args, "--dpkgopt=path-exclude=/usr/share/"+dir+"/*")
	}
	return append(args, suite)
}

// programs are what tests look for.
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
