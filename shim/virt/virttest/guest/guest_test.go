package guest

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/cavaliergopher/cpio"
	"github.com/google/go-cmp/cmp"
)

// The initramfs lists the modules in load order, compressed or not. It leaves out built-in and
// unused modules.
func TestMake(t *testing.T) {
	if testing.Short() {
		t.Skip("left out with -short: builds a program")
	}
	kernel, dir := t.TempDir(), t.TempDir()
	for _, name := range []string{"virtio_mem.ko.xz", "virtio.ko", "dummy.ko"} {
		path := filepath.Join(kernel, "lib", "modules", "6.1", name)
		if err := errors.Join(
			os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(name), 0o644),
		); err != nil {
			t.Fatal(err)
		}
	}
	g, err := Make(t.Context(), kernel, dir)
	if err != nil {
		t.Fatal(err)
	}
	image, err := os.ReadFile(g.Initramfs)
	if err != nil {
		t.Fatal(err)
	}
	files := unpack(t, image)
	if len(files["init"]) == 0 {
		t.Error("there is no init")
	}
	delete(files, "init")
	want := map[string]string{
		"dev": "", "modules": "", "proc": "", "sys": "",
		"modules/virtio.ko": "virtio.ko", "modules/virtio_mem.ko.xz": "virtio_mem.ko.xz",
		"modules/list": "/modules/virtio.ko\n/modules/virtio_mem.ko.xz\n",
	}
	if diff := cmp.Diff(want, files); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func unpack(t *testing.T, image []byte) map[string]string {
	t.Helper()
	files := map[string]string{}
	r := cpio.NewReader(bytes.NewReader(image))
	for {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		files[header.Name] = string(data)
	}
}

func TestKernel(t *testing.T) {
	cache := t.TempDir()
	t.Setenv("MOORING_CACHE", cache)
	if dir, err := Kernel(); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("Kernel of an empty cache = %q, %v", dir, err)
	}
	dir := filepath.Join(cache, "guest-kernel")
	err := errors.Join(
		os.Mkdir(dir, 0o755), os.WriteFile(filepath.Join(dir, "vmlinuz"), nil, 0o644),
	)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := Kernel(); got != dir || err != nil {
		t.Errorf("Kernel = %q, %v, want %q", got, err, dir)
	}
}
