package image

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/cavaliergopher/cpio"

	"github.com/mooring-vm/mooring/hack/throwaway/child"
)

// initScript mounts the disk of a node that QEMU can save. devtmpfs moves into it by systemd.
const initScript = `#!/bin/busybox sh
/bin/busybox mount -t devtmpfs dev /dev
/bin/busybox insmod /virtio_blk.ko
i=0
while [ ! -b /dev/vda ] && [ $i -lt 100 ]; do
	/bin/busybox sleep 0.05
	i=$((i + 1))
done
/bin/busybox mount -t ext4 -o noatime /dev/vda /root
/bin/busybox umount /dev
exec /bin/busybox switch_root /root /lib/systemd/systemd
`

// Initramfs returns an initramfs that mounts a virtio disk. The tree has the kernel's modules and
// busybox.
func Initramfs(ctx context.Context, tree string) ([]byte, error) {
	busybox := filepath.Join(tree, "usr/bin/busybox")
	program, err := os.ReadFile(busybox)
	if err != nil {
		return nil, err
	}
	driver, err := driverOf(ctx, busybox, tree)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	w := cpio.NewWriter(&out)
	var errs []error
	for _, dir := range []string{"bin", "dev", "root"} {
		errs = append(errs, w.WriteHeader(&cpio.Header{Name: dir, Mode: cpio.TypeDir | 0o755}))
	}
	for _, f := range []struct {
		name    string
		mode    cpio.FileMode
		content []byte
	}{
		{"bin/busybox", 0o755, program}, {"virtio_blk.ko", 0o644, driver},
		{"init", 0o755, []byte(initScript)},
	} {
		errs = append(errs, w.WriteHeader(&cpio.Header{Name: f.name,
			Mode: cpio.TypeReg | f.mode, Size: int64(len(f.content))}))
		_, err := w.Write(f.content)
		errs = append(errs, err)
	}
	errs = append(errs, w.Close())
	return out.Bytes(), errors.Join(errs...)
}

// driverOf returns the driver of virtio disks, decompressed by the tree's static busybox.
func driverOf(ctx context.Context, busybox, tree string) ([]byte, error) {
	found, err := filepath.Glob(filepath.Join(tree,
		"usr/lib/modules/*/kernel/drivers/block/virtio_blk.ko*"))
	if err != nil {
		return nil, err
	}
	if len(found) != 1 {
		return nil, fmt.Errorf("looking for virtio_blk below %s: found %d, want 1", tree,
			len(found))
	}
	if !strings.HasSuffix(found[0], ".xz") {
		return os.ReadFile(found[0])
	}
	cmd := child.Isolated(ctx, busybox, "xz", "-dc", found[0])
	var out bytes.Buffer
	cmd.Stdout = &out
	err = child.Run(cmd)
	return out.Bytes(), err
}
