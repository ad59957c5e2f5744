package heartbeat

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
)

// run keeps a heartbeat for the given length and returns the times of the beats.
func run(
	t *testing.T,
	interval, length time.Duration,
	answer func(n int) error,
) (beats []time.Duration, err error) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), length)
		defer cancel()
		start := time.Now()
		err = keep(ctx, interval, func() error {
			beats = append(beats, time.Since(start))
			return answer(len(beats))
		})
	})
	return beats, err
}

func TestKeep(t *testing.T) {
	beats, err := run(t, 5*time.Second, 12*time.Second, func(int) error { return nil })
	if err != nil || fmt.Sprint(beats) != "[0s 5s 10s]" {
		t.Errorf("beats at %v, %v", beats, err)
	}
}

func TestKeepSkipsTemporaryErrors(t *testing.T) {
	for _, passing := range []error{
		unix.EINTR, unix.ENOMEM, unix.EIO, unix.ENOSPC, errors.New("unknown"),
	} {
		beats, err := run(t, time.Second, 2500*time.Millisecond, func(n int) error {
			if n == 2 {
				return fmt.Errorf("touch: %w", passing)
			}
			return nil
		})
		if err != nil || len(beats) != 3 {
			t.Errorf("%v: beats at %v, %v", passing, beats, err)
		}
	}
}

func TestKeepEndsWithPermanentErrors(t *testing.T) {
	for _, lasting := range []error{ErrNoDirectory, unix.EACCES, unix.EROFS, unix.EPERM} {
		beats, err := run(
			t, time.Second, time.Minute,
			func(int) error { return fmt.Errorf("touch: %w", lasting) },
		)
		if !errors.Is(err, lasting) || len(beats) != 1 {
			t.Errorf("%v: beats at %v, %v", lasting, beats, err)
		}
	}
}

func TestBadIntervals(t *testing.T) {
	for _, interval := range []time.Duration{0, -time.Second} {
		err := Keep(t.Context(), DefaultFile, interval)
		if err == nil || errors.Is(err, ErrNoDirectory) {
			t.Errorf("interval %s: %v", interval, err)
		}
	}
}

func TestKeepTouches(t *testing.T) {
	path := filepath.Join(t.TempDir(), "heartbeat")
	err := errors.Join(unix.Mkfifo(path, 0o666), os.Chtimes(path, time.Unix(0, 0), time.Unix(0, 0)))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // the first heartbeat comes anyway
	if err := Keep(ctx, path, time.Hour); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Lstat(path); err != nil || info.ModTime().Unix() == 0 {
		t.Errorf("the file was not touched: %v", err)
	}
	if err := Keep(ctx, path+".none", time.Hour); !errors.Is(err, ErrNoDirectory) {
		t.Errorf("Keep without a file = %v", err)
	}
}
