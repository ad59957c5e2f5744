package uninstall

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
)

// Linux implements [System] on the current host.
type Linux struct{}

// Unmount implements [System].
func (Linux) Unmount(path string) error {
	err := unix.Unmount(path, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
	if errors.Is(err, unix.EINVAL) {
		return ErrNotMounted
	}
	return err
}

// MountSource implements [System].
func (Linux) MountSource(path string) (string, error) {
	path, err := filepath.EvalSymlinks(path) // the kernel lists resolved paths
	if errors.Is(err, fs.ErrNotExist) {
		return "", ErrNotMounted
	}
	if err != nil {
		return "", err
	}
	mounts, err := mountinfo.GetMounts(func(m *mountinfo.Info) (skip, stop bool) {
		return m.Mountpoint != path, false
	})
	if err != nil {
		return "", err
	}
	if len(mounts) == 0 {
		return "", ErrNotMounted
	}
	return mounts[len(mounts)-1].Source, nil
}

// Systemctl implements [System].
func (Linux) Systemctl(ctx context.Context, args ...string) error {
	out, err := exec.CommandContext(ctx, "systemctl", args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("systemctl %s: %w: %s", strings.Join(args, " "), err,
			bytes.TrimSpace(out))
	}
	return nil
}
