package cache

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// ownerFile is locked by the process that uses a temporary folder.
const ownerFile = "owner.lock"

// Temp is a folder that is removed with Close, or by the next caller of Temp
// after its owner died without.
type Temp struct {
	Dir  string
	lock *lock
}

// Temp makes a new folder below the store's folder called name, and sweeps up
// those whose owners are gone.
func (s *Store) Temp(ctx context.Context, name string) (*Temp, error) {
	parent := s.Dir(name)
	if err := os.MkdirAll(parent, 0o700); err != nil {
		return nil, fmt.Errorf("making temporary folder: %w", err)
	}
	all, err := lockExclusive(ctx, filepath.Join(parent, ".lock")) // a new folder is not swept before its lock is taken
	if err != nil {
		return nil, fmt.Errorf("making temporary folder: %w", err)
	}
	defer all.release() //nolint:errcheck // closing a lock file loses no data
	if err := sweep(parent); err != nil {
		return nil, fmt.Errorf("removing what dead processes left: %w", err)
	}
	dir, err := os.MkdirTemp(parent, "tmp-")
	if err != nil {
		return nil, fmt.Errorf("making temporary folder: %w", err)
	}
	l, err := lockExclusive(ctx, filepath.Join(dir, ownerFile))
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return &Temp{Dir: dir, lock: l}, nil
}

func sweep(parent string) error {
	dirs, err := filepath.Glob(filepath.Join(parent, "tmp-*"))
	if err != nil {
		return err
	}
	for _, dir := range dirs {
		l, ok, err := tryExclusive(filepath.Join(dir, ownerFile))
		if errors.Is(err, os.ErrNotExist) || (err == nil && !ok) {
			continue
		}
		if err != nil {
			return err
		}
		if err := errors.Join(os.RemoveAll(dir), l.release()); err != nil {
			return err
		}
	}
	return nil
}

// Close removes the folder.
func (t *Temp) Close() error { return errors.Join(os.RemoveAll(t.Dir), t.lock.release()) }
