// Package touch sets and reads the times of the files that a pod shares with the node's agent. The
// files are named pipes. Opening one would block, so this package opens none.
package touch

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// ErrNoDirectory says that the file does not exist.
var ErrNoDirectory = errors.New("this container has no pod directory: it is no launcher, or was " +
	"created without Mooring")

// Touch sets the times of a file to now by the node's clock. A user with write permission may do
// this; other times need the owner. Touch makes one system call and follows no symbolic link at the
// end of path. If the file does not exist, the error is [ErrNoDirectory].
func Touch(path string) error {
	now := []unix.Timespec{{Nsec: unix.UTIME_NOW}, {Nsec: unix.UTIME_NOW}}
	if err := unix.UtimesNanoAt(unix.AT_FDCWD, path, now, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return failed("touch", path, err)
	}
	return nil
}

// At returns the time of the latest touch. The zero time means that the file was never touched, or
// that the agent has answered.
func At(path string) (time.Time, error) {
	var st unix.Stat_t
	if err := unix.Fstatat(unix.AT_FDCWD, path, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return time.Time{}, failed("look at", path, err)
	}
	if st.Mtim == (unix.Timespec{}) {
		return time.Time{}, nil
	}
	return time.Unix(st.Mtim.Unix()), nil
}

func failed(doing, path string, err error) error {
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) {
		return fmt.Errorf("%s %s: %w: %w", doing, path, err, ErrNoDirectory)
	}
	return fmt.Errorf("%s %s: %w", doing, path, err)
}
