package cache

import (
	"context"
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// lock is an flock(2): it goes with the process, whatever ends it.
type lock struct{ f *os.File }

func lockShared(ctx context.Context, path string) (*lock, error) {
	return flock(ctx, path, unix.LOCK_SH)
}

func lockExclusive(ctx context.Context, path string) (*lock, error) {
	return flock(ctx, path, unix.LOCK_EX)
}

// flock polls, because a blocked flock(2) cannot be cancelled.
func flock(ctx context.Context, path string, how int) (*lock, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		err := unix.Flock(int(f.Fd()), how|unix.LOCK_NB)
		if err == nil {
			return &lock{f}, nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			_ = f.Close()
			return nil, &os.PathError{Op: "flock", Path: path, Err: err}
		}
		select {
		case <-ctx.Done():
			_ = f.Close()
			return nil, context.Cause(ctx)
		case <-tick.C:
		}
	}
}

// tryExclusive reports false where another process holds the lock.
func tryExclusive(path string) (*lock, bool, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, false, err
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err == nil {
		return &lock{f}, true, nil
	}
	_ = f.Close()
	if errors.Is(err, unix.EWOULDBLOCK) {
		return nil, false, nil
	}
	return nil, false, &os.PathError{Op: "flock", Path: path, Err: err}
}

func (l *lock) release() error { return l.f.Close() }
