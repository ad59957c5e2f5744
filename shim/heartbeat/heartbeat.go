// Package heartbeat reports to the node's agent that the launcher of a VM is alive. The annotation
// watchdog.lifecycle.mooring.dev sets the maximum age of a heartbeat.
package heartbeat

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mooring-vm/mooring/shim/internal/touch"
)

// DefaultFile is the file that launchers touch.
const DefaultFile = "/run/mooring/pod/heartbeat"

// DefaultInterval fits watchdogs of 15 seconds and more, as it allows two late heartbeats.
const DefaultInterval = 5 * time.Second

// ErrNoDirectory means: the container has no pod directory. It is not a launcher, or it was created
// without Mooring.
var ErrNoDirectory = touch.ErrNoDirectory

// Touch gives one heartbeat with one system call. It does not wait for the agent and works as any
// user. The agent detects changes of the file's time, and never compares it with a clock.
func Touch(path string) error {
	if err := touch.Touch(path); err != nil {
		return fmt.Errorf("heartbeat: %w", err)
	}
	return nil
}

// Keep gives a heartbeat at once and then at each interval. It returns nil when ctx ends. Steps of
// the wall clock have no effect. After a temporary error, such as a lack of memory, Keep continues
// with the next heartbeat. A permanent error ends it: [ErrNoDirectory], or no permission to
// touch the file.
//
// Keep only proves a running process. If work can hang, call [Touch] from the work instead.
func Keep(ctx context.Context, path string, interval time.Duration) error {
	return keep(ctx, interval, func() error { return Touch(path) })
}

func keep(ctx context.Context, interval time.Duration, beat func() error) error {
	if interval <= 0 {
		return fmt.Errorf("heartbeat: interval %s: want more than 0s", interval)
	}
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		if err := beat(); err != nil && isPermanent(err) {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// isPermanent reports whether another attempt would fail, too.
func isPermanent(err error) bool {
	permanent := []error{
		ErrNoDirectory,
		unix.EACCES,
		unix.EPERM,
		unix.EROFS,
		unix.ELOOP,
		unix.ENAMETOOLONG,
		unix.EINVAL,
		unix.ENOSYS,
	}
	return slices.ContainsFunc(permanent, func(target error) bool { return errors.Is(err, target) })
}
