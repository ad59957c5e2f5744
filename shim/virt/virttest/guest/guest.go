// Package guest makes the small Linux guest of the tests. It consists of Debian's kernel, which
// hack/setup downloads, and an initramfs with one program. Words on the kernel's command line that
// begin with "guest." select its behaviour:
//
//	guest.keep-cpus-offline    leaves plugged vCPUs offline
//	guest.keep-memory-offline  leaves plugged memory offline
//	guest.keep-dimms           refuses to release DIMMs
//	guest.ignore-power-button  ignores the power button
//	guest.slow-shutdown        powers off a minute after the power button
//	guest.busy                 computes without pause and prints its progress
//	guest.use-memory           occupies nearly all memory, so that it cannot release it
//	guest.heartbeat            writes to its second serial port every few milliseconds
package guest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/cavaliergopher/cpio"
)

// Arguments are the fixed part of the kernel's command line. Without swiotlb=noforce a small guest
// with a large maxMemory does not boot.
const Arguments = "console=ttyS0 quiet panic=-1 swiotlb=noforce"

// modules lists the kernel modules in load order.
var modules = []string{
	"virtio_ring", "virtio", "virtio_pci_legacy_dev", "virtio_pci_modern_dev", "virtio_pci",
	"virtio_balloon", "virtio_mem", "virtio_console", "button", "evdev",
}

// Guest is the pair of files that QEMU boots.
type Guest struct{ Kernel, Initramfs string }

// Kernel returns the folder with vmlinuz and lib/modules in the cache of hack/setup. The error
// names the missing file.
func Kernel() (string, error) {
	dir, err := cacheDir()
	if err != nil {
		return "", err
	}
	dir = filepath.Join(dir, "guest-kernel")
	if _, err := os.Stat(filepath.Join(dir, "vmlinuz")); err != nil {
		return "", fmt.Errorf("no guest kernel: %w; run hack/setup test", err)
	}
	return dir, nil
}

func cacheDir() (string, error) {
	if dir := os.Getenv("MOORING_CACHE"); dir != "" {
		return dir, nil
	}
	dir, err := os.UserCacheDir()
	return filepath.Join(dir, "mooring"), err
}

// Make builds the guest's program with go and writes the initramfs into dir.
func Make(ctx context.Context, kernel, dir string) (Guest, error) {
	g := Guest{Kernel: filepath.Join(kernel, "vmlinuz"), Initramfs: filepath.Join(dir, "initramfs")}
	program := filepath.Join(dir, "init")
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags=-s -w", "-o", program,
		"github.com/mooring-vm/mooring/shim/virt/virttest/guest/init")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return g, fmt.Errorf("build the guest's init: %w: %s", err, out)
	}
	image, err := initramfs(program, filepath.Join(kernel, "lib", "modules"))
	if err != nil {
		return g, fmt.Errorf("make the guest's initramfs: %w", err)
	}
	return g, os.WriteFile(g.Initramfs, image, 0o644)
}

func initramfs(program, tree string) ([]byte, error) {
	files, err := findModules(tree)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	w := cpio.NewWriter(&out)
	errs := []error{addFile(w, "init", program, 0o755)}
	for _, dir := range []string{"dev", "modules", "proc", "sys"} {
		errs = append(errs, w.WriteHeader(&cpio.Header{Name: dir, Mode: cpio.TypeDir | 0o755}))
	}
	var list strings.Builder
	for _, file := range files {
		name := "modules/" + filepath.Base(file)
		errs = append(errs, addFile(w, name, file, 0o644))
		fmt.Fprintf(&list, "/%s\n", name)
	}
	errs = append(errs, addData(w, "modules/list", []byte(list.String()), 0o644), w.Close())
	return out.Bytes(), errors.Join(errs...)
}

// findModules finds the module files, compressed or not. A module built into the kernel has none.
func findModules(tree string) ([]string, error) {
	found := map[string]string{}
	err := filepath.WalkDir(tree, func(path string, _ fs.DirEntry, err error) error {
		if name, _, ok := strings.Cut(filepath.Base(path), ".ko"); ok {
			found[name] = path
		}
		return err
	})
	var files []string
	for _, name := range modules {
		if path, ok := found[name]; ok {
			files = append(files, path)
		}
	}
	return files, err
}

func addFile(w *cpio.Writer, name, path string, mode cpio.FileMode) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return addData(w, name, data, mode)
}

func addData(w *cpio.Writer, name string, data []byte, mode cpio.FileMode) error {
	if err := w.WriteHeader(
		&cpio.Header{Name: name, Mode: cpio.TypeReg | mode, Size: int64(len(data))},
	); err != nil {
		return err
	}
	_, err := w.Write(data)
	return err
}
