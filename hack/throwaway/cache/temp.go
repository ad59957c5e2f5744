package cache

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
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
	all, err := s.lockExclusive(ctx, filepath.Join(parent, ".lock")) // a new folder is not swept before its lock is taken
	if err != nil {
		return nil, fmt.Errorf("making temporary folder: %w", err)
	}
	defer all.releaseExclusive()
	if err := sweep(parent); err != nil {
		return nil, fmt.Errorf("removing what dead processes left: %w", err)
	}
	dir, err := os.MkdirTemp(parent, "tmp-")
	if err != nil {
		return nil, fmt.Errorf("making temporary folder: %w", err)
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

// Close removes the folder.
func (t *Temp) Close() error { return errors.Join(remove(t.Dir), t.lock.release()) }

// Sweep removes the folders called name whose owners are gone.
func (s *Store) Sweep(ctx context.Context, name string) error {
	all, err := s.lockExclusive(ctx, s.Dir(name, ".lock"))
	if err != nil {
		return fmt.Errorf("removing what dead processes left: %w", err)
	}
	defer all.releaseExclusive()
	return sweep(s.Dir(name))
}

// Owned reports whether the owner of a Temp's folder is alive.
func Owned(dir string) (bool, error) {
	f, err := os.Open(filepath.Join(dir, ownerFile))
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer f.Close()
	free, err := try(f, unix.LOCK_SH) // two who look do not see each other
	return !free && err == nil, err
}

// Lock keeps other processes from holding the lock called name until release.
// It waits for them as long as ctx allows.
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
