package agent

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// holdLock creates a file and locks it until the file is closed or this process ends. The
// lock is shared: it excludes no other holder. It only shows that a holder lives.
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

// lock takes the shared lock of a file. The file must be open for reading.
func lock(f *os.File) error {
	shared := unix.Flock_t{Type: unix.F_RDLCK}
	if err := unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &shared); err != nil {
		return fmt.Errorf("lock %s: %w", f.Name(), err)
	}
	return nil
}

// lockHeld reports whether a process holds the lock of a file. A missing file has no lock.
func lockHeld(path string) (bool, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("find the holder of a lock: %w", err)
	}
	defer f.Close()
	held := unix.Flock_t{Type: unix.F_WRLCK} // conflicts with every other lock
	if err := unix.FcntlFlock(f.Fd(), unix.F_OFD_GETLK, &held); err != nil {
		return false, fmt.Errorf("find the holder of the lock %s: %w", path, err)
	}
	return held.Type != unix.F_UNLCK, nil
}
