package cache

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Clean removes every entry called one of names that nobody uses at the moment
// and returns the folders it removed.
func (s *Store) Clean(names ...string) ([]string, error) {
	var removed []string
	for _, name := range names {
		locks, err := filepath.Glob(filepath.Join(s.dir, name, "*.lock"))
		if err != nil {
			return removed, err
		}
		for _, path := range locks {
			dir := strings.TrimSuffix(path, ".lock")
			ok, err := removeUnused(dir)
			if err != nil {
				return removed, err
			}
			if ok {
				removed = append(removed, dir)
			}
		}
	}
	return removed, nil
}

// removeUnused keeps the lock file: removing it would let two builders hold
// locks on two files of one name.
func removeUnused(dir string) (bool, error) {
	f, err := os.OpenFile(dir+".lock", os.O_RDWR, 0)
	if err != nil {
		return false, err
	}
	defer f.Close()
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return false, nil //nolint:nilerr // in use
	}
	if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return true, errors.Join(removeAll(dir), os.RemoveAll(dir+".tmp"))
}
