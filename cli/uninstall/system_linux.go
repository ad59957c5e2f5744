package uninstall

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"

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

// Systemctl implements [System].
func (Linux) Systemctl(ctx context.Context, args ...string) error {
	out, err := exec.CommandContext(ctx, "systemctl", args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("systemctl %s: %w: %s", strings.Join(args, " "), err,
			bytes.TrimSpace(out))
	}
	return nil
}
