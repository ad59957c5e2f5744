package cache

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// ownerFile is the lock file of a temporary directory's owner.
const ownerFile = "owner.lock"

// Temp is a temporary directory. Close removes it. If its owner dies, the next call of Temp removes
// it.
type Temp struct {
	Dir  string
	lock *lock
}

// Temp makes a new directory below the store's directory called name, and removes the directories
// of ended owners there.
func (s *Store) Temp(ctx context.Context, name string) (*Temp, error) {
	parent := s.Dir(name)
	if err := os.MkdirAll(parent, 0o700); err != nil {
		return nil, fmt.Errorf("making a temporary directory: %w", err)
	}
	// Without this lock, sweep could remove a new directory before its owner locks it.
	all, err := s.lockExclusive(ctx, filepath.Join(parent, ".lock"))
	if err != nil {
		return nil, fmt.Errorf("making a temporary directory: %w", err)
	}
	defer all.releaseExclusive()
	if err := sweep(parent); err != nil {
		return nil, fmt.Errorf("removing directories of dead processes: %w", err)
	}
	dir, err := os.MkdirTemp(parent, "tmp-")
	if err != nil {
		return nil, fmt.Errorf("making a temporary directory: %w", err)
	}
	l, err := s.lockExclusive(ctx, filepath.Join(dir, ownerFile))
	if err != nil {
		return nil, errors.Join(err, remove(dir))
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
		if err := errors.Join(remove(dir), l.release()); err != nil {
			return err
		}
	}
	return nil
}

// Close removes the directory.
func (t *Temp) Close() error { return errors.Join(remove(t.Dir), t.lock.release()) }

// Sweep removes the directories called name of dead owners.
func (s *Store) Sweep(ctx context.Context, name string) error {
	all, err := s.lockExclusive(ctx, s.Dir(name, ".lock"))
	if err != nil {
		return fmt.Errorf("removing directories of dead processes: %w", err)
	}
	defer all.releaseExclusive()
	return sweep(s.Dir(name))
}

// Owned reports whether the owner of a Temp's directory runs.
func Owned(dir string) (bool, error) {
	f, err := os.Open(filepath.Join(dir, ownerFile))
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer f.Close()
	// A shared lock: with exclusive ones, two callers would take each other for the owner.
	free, err := tryFlock(f, unix.LOCK_SH)
	return !free && err == nil, err
}

// Lock takes the lock called name until release. It waits for other processes until ctx ends.
func (s *Store) Lock(ctx context.Context, name string) (release func(), err error) {
	path := s.Dir(name + ".lock")
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	l, err := s.lockExclusive(ctx, path)
	if err != nil {
		return nil, fmt.Errorf("locking %s: %w", name, err)
	}
	return l.releaseExclusive, nil
}
