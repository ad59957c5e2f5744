// Package touch sets and reads the times of the files that a pod shares with the
// node's agent. They are named pipes: opening one would wait for a reader that never
// comes, so nothing here opens them.
package touch

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// ErrNoDirectory says that the file is not there.
var ErrNoDirectory = errors.New("this container has no pod directory: it is no launcher, or was created without Mooring")

// Touch sets the times of a file to now, as the node's clock has it. Whoever may
// write the file may touch it, and only to now: other times need its owner. It makes
// one system call and follows no symbolic link at the end of path. Where there is no
// such file, the error is [ErrNoDirectory].
func Touch(path string) error {
	now := []unix.Timespec{{Nsec: unix.UTIME_NOW}, {Nsec: unix.UTIME_NOW}}
	if err := unix.UtimesNanoAt(unix.AT_FDCWD, path, now, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return failed("touch", path, err)
	}
	return nil
}

// At returns when a file was touched. The zero time stands for the epoch: never, or
// answered.
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
