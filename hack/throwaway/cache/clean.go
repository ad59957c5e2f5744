package cache

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Prune removes the unused entries called name, except the keep most recently used ones. It returns
// the removed directories.
func (s *Store) Prune(name string, keep int) ([]string, error) {
	dirs, err := s.entries(name)
	if err != nil {
		return nil, err
	}
	var removed []string
	for _, dir := range dirs[min(keep, len(dirs)):] {
		ok, err := removeUnused(dir)
		if err != nil {
			return removed, err
		}
		if ok {
			removed = append(removed, dir)
		}
	}
	return removed, nil
}

// entries lists the directories called name, most recently used first.
func (s *Store) entries(name string) ([]string, error) {
	locks, err := filepath.Glob(s.Dir(name, "*.lock"))
	if err != nil {
		return nil, err
	}
	var dirs []string
	used := map[string]time.Time{}
	for _, path := range locks {
		dir := strings.TrimSuffix(path, ".lock")
		info, err := os.Stat(sumFile(dir))
		switch {
		case errors.Is(err, fs.ErrNotExist): // the build did not end, or the entry was removed
		case err != nil:
			return nil, err
		default:
			used[dir] = info.ModTime()
		}
		dirs = append(dirs, dir)
	}
	slices.SortFunc(dirs, func(a, b string) int {
		return cmp.Or(used[b].Compare(used[a]), strings.Compare(a, b))
	})
	return dirs, nil
}

// removeUnused removes an entry without users, and reports whether it has removed files. It keeps
// the lock file: after its removal, two builders could lock two files of one name.
func removeUnused(dir string) (bool, error) {
	l, ok, err := tryExclusive(dir + ".lock")
	if err != nil || !ok {
		return false, err
	}
	defer l.release() //nolint:errcheck // closing a lock file loses no data
	left, err := filepath.Glob(dir + ".tmp*")
	if err != nil || (!exists(dir) && len(left) == 0) {
		return false, err
	}
	return true, errors.Join(removeEntry(dir), removeAttempts(dir))
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
