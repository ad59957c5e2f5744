// Package heartbeat tells the node's agent that the launcher of a VM is well. The
// annotation watchdog.lifecycle.mooring.dev says how old a heartbeat may become.
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

// DefaultInterval fits watchdogs of 15 seconds and more: two heartbeats may be late.
const DefaultInterval = 5 * time.Second

// ErrNoDirectory says that the container has no pod directory: it is no launcher, or
// it was created without Mooring.
var ErrNoDirectory = touch.ErrNoDirectory

// Touch gives one heartbeat. It makes one system call, which does not wait for the
// agent, and works as any user. The agent goes by the file's time having changed, and
// never compares it with a clock.
func Touch(path string) error {
	if err := touch.Touch(path); err != nil {
		return fmt.Errorf("heartbeat: %w", err)
	}
	return nil
}

// Keep gives a heartbeat at once and then one each interval, until ctx ends; then
// it returns nil. Steps of the wall clock do not matter. Errors that may pass, such as
// a lack of memory, are left to the next heartbeat; one that cannot pass ends Keep:
// [ErrNoDirectory], or that the file must not be touched.
//
// A program whose work can hang should call [Touch] where the work is done instead:
// Keep says only that the process runs.
func Keep(ctx context.Context, path string, interval time.Duration) error {
	return keep(ctx, interval, func() error { return Touch(path) })
}

func keep(ctx context.Context, interval time.Duration, beat func() error) error {
	if interval <= 0 {
		return fmt.Errorf("heartbeat: interval %s: want more than zero", interval)
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

// lasts reports whether trying again is of no use.
func isPermanent(err error) bool {
	permanent := []error{ErrNoDirectory, unix.EACCES, unix.EPERM, unix.EROFS, unix.ELOOP, unix.ENAMETOOLONG, unix.EINVAL, unix.ENOSYS}
	return slices.ContainsFunc(permanent, func(target error) bool { return errors.Is(err, target) })
}
