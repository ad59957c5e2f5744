package command

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// lockInterval is the time between two attempts to lock the pod directory.
const lockInterval = time.Second

// lockPod waits until no other shim serves the VM of this pod, and locks the pod directory. The
// lock is an flock(2): the kernel releases it when the process ends. It needs no right to write.
// Without the directory there is no agent, and the shim changes no VM: release then does nothing.
// The errors are ctx's and those of the system calls.
func lockPod(ctx context.Context, dir string, log *slog.Logger) (release func(), err error) {
	d, err := os.Open(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return func() {}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("lock the pod directory: %w", err)
	}
	err = awaitLock(ctx, d, log)
	if err != nil {
		_ = d.Close()
		return nil, fmt.Errorf("lock the pod directory %s: %w", dir, err)
	}
	return func() { _ = d.Close() }, nil
}

// awaitLock polls, because no context ends a blocked flock(2).
func awaitLock(ctx context.Context, d *os.File, log *slog.Logger) error {
	for logged := false; ; logged = true {
		err := unix.Flock(int(d.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil || !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			return err
		}
		if !logged {
			log.Warn("another mooring-shim serves the VM of this pod: waiting for its end")
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(lockInterval):
		}
	}
}
