package agent

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// holdLock makes a file and locks it until it is closed, or this process ends. Several
// may hold it at once: the lock keeps nobody out, it shows that somebody lives.
func holdLock(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock: %w", err)
	}
	if err := lock(f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// lock is holdLock's, of a file that can be read.
func lock(f *os.File) error {
	if err := unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &unix.Flock_t{Type: unix.F_RDLCK}); err != nil {
		return fmt.Errorf("lock %s: %w", f.Name(), err)
	}
	return nil
}

// lockHeld reports whether anybody holds the lock of a file.
func lockHeld(path string) (bool, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("look for the holder of a lock: %w", err)
	}
	defer f.Close()
	held := unix.Flock_t{Type: unix.F_WRLCK} // which would conflict with any
	if err := unix.FcntlFlock(f.Fd(), unix.F_OFD_GETLK, &held); err != nil {
		return false, fmt.Errorf("look for the holder of %s: %w", path, err)
	}
	return held.Type != unix.F_UNLCK, nil
}
