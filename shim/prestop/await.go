package prestop

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// safetyInterval is the interval of reading the request without a notification. Not every file
	// system has notifications.
	safetyInterval = 30 * time.Second

	// degradedInterval replaces safetyInterval if the kernel refuses notifications, for example for
	// lack of inotify instances.
	degradedInterval = 500 * time.Millisecond
)

// AwaitRequest blocks until the pod has requested the stop of its VM and has no confirmation yet. A
// notification of the kernel (inotify) wakes it at once. It also reads the file every 30 s, or
// twice a second if the kernel refuses notifications. A missing or unreadable file is no request.
// The only error is ctx's.
func AwaitRequest(ctx context.Context, file string) error {
	a := awaiter{file: file, watch: watch, safety: safetyInterval, degraded: degradedInterval}
	return a.await(ctx)
}

type awaiter struct {
	file             string
	watch            func(file string) (*os.File, error)
	safety, degraded time.Duration
	reads            int // of the file
}

// await starts a watch before each read, and reads after its first notification. So it misses no
// request, even if the kernel's queue overflows or another file takes the place of this one.
func (a *awaiter) await(ctx context.Context) error {
	for ctx.Err() == nil {
		if a.readOrWait(ctx) {
			return nil
		}
	}
	return ctx.Err()
}

// readOrWait reads the request. Without one it waits until the next read is due.
func (a *awaiter) readOrWait(ctx context.Context) (requested bool) {
	notifications, err := a.watch(a.file)
	if err == nil {
		defer notifications.Close()
	}
	a.reads++
	if requested, err := Requested(a.file); requested && err == nil {
		return true
	}
	if err == nil {
		err = awaitNotification(ctx, notifications, a.safety)
	}
	switch {
	case errors.Is(err, unix.ENOENT): // a container's mounts do not change
		pause(ctx, a.safety)
	case err != nil:
		pause(ctx, a.degraded)
	}
	return false
}

// watch returns an inotify instance for the touches of a file, for its replacement and for its
// creation.
func watch(file string) (*os.File, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("watch %s: %w", file, err)
	}
	notifications := os.NewFile(uintptr(fd), "inotify")
	_, err = unix.InotifyAddWatch(fd, filepath.Dir(file), unix.IN_CREATE|unix.IN_MOVED_TO)
	if err == nil {
		_, err = unix.InotifyAddWatch(fd, file, unix.IN_ATTRIB|unix.IN_DONT_FOLLOW)
		if errors.Is(err, unix.ENOENT) {
			err = nil // the directory reports its creation
		}
	}
	if err != nil {
		_ = notifications.Close()
		return nil, fmt.Errorf("watch %s: %w", file, err)
	}
	return notifications, nil
}

// awaitNotification waits for a notification, the end of ctx or the end of limit.
func awaitNotification(ctx context.Context, notifications *os.File, limit time.Duration) error {
	if err := notifications.SetReadDeadline(time.Now().Add(limit)); err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() {
		_ = notifications.SetReadDeadline(time.Unix(1, 0)) // it may be closed already
	})
	defer stop()
	_, err := notifications.Read(make([]byte, 4096))
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return nil
	}
	return err
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
