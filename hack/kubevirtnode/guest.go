package kubevirtnode

import (
	"context"
	"hash/crc32"
	"os"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/mooring-vm/mooring/hack/containerimage"
	"github.com/mooring-vm/mooring/hack/throwaway/image"
	"github.com/mooring-vm/mooring/shim/virt/virttest/guest"
)

// GuestImage has the guest of Mooring's tests at KernelPath and InitramfsPath, for a VM's
// kernelBoot.
const (
	GuestImage    = "localhost/guest:1"
	KernelPath    = "/boot/vmlinuz"
	InitramfsPath = "/boot/initramfs"
)

// writeGuestImage writes an archive of GuestImage.
func writeGuestImage(ctx context.Context, file string) error {
	kernel, err := guest.Kernel()
	if err != nil {
		return err
	}
	temp, err := os.MkdirTemp("", "mooring-guest-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temp)
	g, err := guest.Make(ctx, kernel, temp)
	if err != nil {
		return err
	}
	files := image.Files{}
	for to, from := range map[string]string{KernelPath: g.Kernel, InitramfsPath: g.Initramfs} {
		content, err := os.ReadFile(from)
		if err != nil {
			return err
		}
		files[to[1:]] = image.File{Content: pad(content), Mode: 0o644}
	}
	layer, err := containerimage.Layer(files)
	if err != nil {
		return err
	}
	img, err := containerimage.New(v1.Config{Env: []string{path}}, layer)
	if err != nil {
		return err
	}
	return containerimage.Write(file, map[string]v1.Image{GuestImage: img})
}

// pad appends zeros until the checksum is below 2^31. KubeVirt 1.7 writes it into a field whose
// format is int32, and the API server refuses a larger one: the VM would stay Scheduled. KubeVirt
// 1.9 has int64.
func pad(content []byte) []byte {
	for crc32.ChecksumIEEE(content) >= 1<<31 {
		content = append(content, 0)
	}
	return content
}
