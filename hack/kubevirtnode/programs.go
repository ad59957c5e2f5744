package kubevirtnode

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/mooring-vm/mooring/hack/module"
	"github.com/mooring-vm/mooring/hack/throwaway/cache"
	"github.com/mooring-vm/mooring/hack/throwaway/child"
)

const (
	programsCache = "kubevirt-node"
	packagePath   = "github.com/mooring-vm/mooring/hack/kubevirtnode"
	kubevirtPath  = "kubevirt.io/kubevirt"

	// manifestsProgram prints the objects of virt-handler.
	manifestsProgram = "node-manifests"
	// containerDiskProgram serves the files of a VM's container image.
	containerDiskProgram = "container-disk"
)

// staticPrograms are KubeVirt's programs without cgo, cgoPrograms those with libvirt.
func staticPrograms() []string {
	return []string{"virt-launcher-monitor", "virt-chroot", "virt-tail"}
}

func cgoPrograms() []string { return []string{"virt-launcher", "virt-handler"} }

// settings maps files of KubeVirt's image to files of its module.
func settings() map[string]string {
	return map[string]string{
		"etc/libvirt/qemu.conf":      "cmd/virt-launcher/qemu.conf",
		"etc/libvirt/virtqemud.conf": "cmd/virt-launcher/virtqemud.conf",
		"etc/libvirt/hooks/qemu":     "cmd/virt-launcher/qemu",
		"etc/nsswitch.conf":          "cmd/virt-launcher/nsswitch.conf",
		"usr/bin/node-labeller.sh":   "cmd/virt-launcher/node-labeller/node-labeller.sh",
		"usr/src/container-disk.c":   "cmd/container-disk-v2alpha/main.c",
	}
}

// buildPrograms compiles KubeVirt's programs for nodes into the user's cache, or finds them there.
// Beside them are the files of settings.
func buildPrograms(ctx context.Context, log *slog.Logger) (*cache.Entry, error) {
	names := append(staticPrograms(), cgoPrograms()...)
	return module.Programs{
		Package: packagePath, Cache: programsCache, Make: makePrograms,
		Names: append(names, containerDiskProgram, manifestsProgram),
		Description: "virt-handler and virt-launcher from KubeVirt's module, about ten minutes " +
			"on two cores",
	}.Build(ctx, log)
}

func makePrograms(ctx context.Context, components module.Module, dir string) error {
	version, err := components.Version(ctx, kubevirtPath)
	if err != nil {
		return err
	}
	flags := "-X kubevirt.io/client-go/version.gitVersion=" + version
	if err := components.BuildPackages(ctx, dir, false, flags,
		append(commands(staticPrograms()), ".")...); err != nil {
		return err
	}
	if err := os.Rename(filepath.Join(dir, "components"),
		filepath.Join(dir, manifestsProgram)); err != nil {
		return err
	}
	if err := components.BuildPackages(ctx, dir, true, flags,
		commands(cgoPrograms())...); err != nil {
		return err
	}
	source, err := components.Dir(ctx, kubevirtPath)
	if err != nil {
		return err
	}
	if err := copySettings(source, dir); err != nil {
		return err
	}
	return compileContainerDisk(ctx, dir)
}

// commands are the packages of KubeVirt's programs.
func commands(names []string) []string {
	var packages []string
	for _, name := range names {
		packages = append(packages, kubevirtPath+"/cmd/"+name)
	}
	return packages
}

func copySettings(source, dir string) error {
	for to, from := range settings() {
		content, err := os.ReadFile(filepath.Join(source, from))
		if err != nil {
			return err
		}
		to = filepath.Join(dir, to)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(to, content, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// compileContainerDisk compiles a program in C. It runs in images of users, so it is static.
func compileContainerDisk(ctx context.Context, dir string) error {
	cmd := child.Isolated(ctx, "gcc", "-static", "-O1", "-s", "-w", "-include", "unistd.h",
		"-o", filepath.Join(dir, containerDiskProgram),
		filepath.Join(dir, "usr/src/container-disk.c"))
	return run(cmd)
}

// run runs a command. Its output becomes part of the error.
func run(cmd *exec.Cmd) error {
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := child.Run(cmd); err != nil {
		return fmt.Errorf("%s: %w\n%s", filepath.Base(cmd.Path), err, out.Bytes())
	}
	return nil
}
