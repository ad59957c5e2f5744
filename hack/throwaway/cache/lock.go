package cache

import (
	"context"
	"errors"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// lock is an flock(2). The kernel releases it at the end of the process.
type lock struct{ f *os.File }

// waitNotice is how long a process waits before it logs the reason.
const waitNotice = time.Second

func (s *Store) lockShared(ctx context.Context, path string) (*lock, error) {
	return s.flock(ctx, path, unix.LOCK_SH)
}

// lockExclusive also writes this process's pid into the file, for the log of waiting processes.
func (s *Store) lockExclusive(ctx context.Context, path string) (*lock, error) {
	l, err := s.flock(ctx, path, unix.LOCK_EX)
	if err != nil {
		return nil, err
	}
	l.writeOwner(strconv.Itoa(os.Getpid()))
	return l, nil
}

// flock polls, because a blocked flock(2) cannot be cancelled.
func (s *Store) flock(ctx context.Context, path string, how int) (*lock, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	notice := time.After(waitNotice)
	for {
		got, err := tryFlock(f, how)
		if got {
			return &lock{f}, nil
		}
		if err != nil {
			return nil, errors.Join(err, f.Close())
		}
		select {
		case <-ctx.Done():
			_ = f.Close()
			return nil, context.Cause(ctx)
		case <-notice:
			s.log.Info("waiting for another build", "lock", path, "owner", lockOwner(path))
		case <-tick.C:
		}
	}
}

func tryFlock(f *os.File, how int) (bool, error) {
	err := unix.Flock(int(f.Fd()), how|unix.LOCK_NB)
	switch {
	case err == nil:
		return true, nil
	case errors.Is(err, unix.EWOULDBLOCK), errors.Is(err, unix.EINTR):
		return false, nil
	default:
		return false, &os.PathError{Op: "flock", Path: f.Name(), Err: err}
	}
}

// tryExclusive returns false if another process holds the lock.
func tryExclusive(path string) (*lock, bool, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, false, err
	}
	got, err := tryFlock(f, unix.LOCK_EX)
	if !got {
		return nil, false, errors.Join(err, f.Close())
	}
	return &lock{f}, true, nil
}

// writeOwner writes the pid for the log of other processes. A failure does not matter.
func (l *lock) writeOwner(owner string) {
	_ = l.f.Truncate(0)
	_, _ = l.f.WriteAt([]byte(owner), 0)
}

func lockOwner(path string) string {
	pid, err := os.ReadFile(path)
	if err != nil || len(pid) == 0 {
		return "several" // readers of an outdated entry
	}
	return "process " + string(pid)
}

func (l *lock) release() error { return l.f.Close() }

// releaseExclusive removes the pid of lockExclusive.
func (l *lock) releaseExclusive() {
	l.writeOwner("")
	_ = l.release() // closing a lock file loses no data
}
