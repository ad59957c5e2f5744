package kubevirtnode

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"

	"github.com/mooring-vm/mooring/hack/kubevirt"
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

	// imageDir has the files for the image.
	imageDir = "image"
	// programsDir is the directory of KubeVirt's programs in the image.
	programsDir = "usr/bin"
)

// cgoPrograms are the programs with libvirt. The module's go.mod lists all programs.
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
// The entry has manifestsProgram and imageDir.
func buildPrograms(ctx context.Context, log *slog.Logger) (*cache.Entry, error) {
	return module.Programs{
		Package: packagePath, Module: kubevirt.Components(), Cache: programsCache,
		Names: []string{containerDiskProgram, manifestsProgram, imageDir}, Make: makePrograms,
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
	if err := components.Build(ctx, filepath.Join(dir, manifestsProgram), flags); err != nil {
		return err
	}
	tools, err := components.Tools(ctx)
	if err != nil {
		return err
	}
	var static, cgo []string
	for _, tool := range tools {
		if slices.Contains(cgoPrograms(), filepath.Base(tool)) {
			cgo = append(cgo, tool)
		} else {
			static = append(static, tool)
		}
	}
	tree := filepath.Join(dir, imageDir)
	programs := filepath.Join(tree, programsDir)
	if err := components.BuildPackages(ctx, programs, false, flags, static...); err != nil {
		return err
	}
	if err := components.BuildPackages(ctx, programs, true, flags, cgo...); err != nil {
		return err
	}
	source, err := components.Dir(ctx, kubevirtPath)
	if err != nil {
		return err
	}
	if err := copySettings(source, tree); err != nil {
		return err
	}
	return compileContainerDisk(ctx, tree)
}

func copySettings(source, tree string) error {
	for to, from := range settings() {
		content, err := os.ReadFile(filepath.Join(source, from))
		if err != nil {
			return err
		}
		to = filepath.Join(tree, to)
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
func compileContainerDisk(ctx context.Context, tree string) error {
	cmd := child.Isolated(ctx, "gcc", "-static", "-O1", "-s", "-w", "-include", "unistd.h",
		"-o", filepath.Join(tree, programsDir, containerDiskProgram),
		filepath.Join(tree, "usr/src/container-disk.c"))
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
