package prestop

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
)

var epoch = time.Unix(0, 0)

// stopFile makes the file as the agent does.
func stopFile(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "stop")
	if err := unix.Mkfifo(path, 0o666); err != nil {
		t.Fatal(err)
	}
	setTime(t, path, epoch)
	return path
}

func setTime(t *testing.T, path string, to time.Time) {
	t.Helper()
	if err := os.Chtimes(path, to, to); err != nil {
		t.Error(err)
	}
}

func requested(t *testing.T, path string) bool {
	t.Helper()
	info, err := os.Lstat(path)
	if err != nil {
		t.Error(err)
		return false
	}
	return !info.ModTime().Equal(epoch)
}

// start runs the hook. Each test plays the agent, because in synctest's bubble the hook sleeps
// until time passes.
func start(ctx context.Context, o Options) <-chan error {
	done := make(chan error, 1)
	go func() { done <- Run(ctx, o) }()
	return done
}

// expectWaiting fails the test if the hook has returned.
func expectWaiting(t *testing.T, done <-chan error) {
	t.Helper()
	synctest.Wait()
	select {
	case err := <-done:
		t.Fatalf("the hook did not wait: %v", err)
	default:
	}
}

func TestRun(t *testing.T) {
	file := stopFile(t)
	synctest.Test(t, func(t *testing.T) {
		for range 2 { // a request after a confirmation is a new one
			done := start(t.Context(), Options{File: file})
			expectWaiting(t, done)
			if !requested(t, file) {
				t.Fatal("there is no request")
			}
			time.Sleep(time.Hour) // the agent is away
			expectWaiting(t, done)
			setTime(t, file, epoch)
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
	})
}

func TestTwoRequests(t *testing.T) {
	file := stopFile(t)
	synctest.Test(t, func(t *testing.T) {
		first := start(t.Context(), Options{File: file})
		expectWaiting(t, first)
		second := start(t.Context(), Options{File: file})
		expectWaiting(t, second)
		expectWaiting(t, first)
		setTime(t, file, epoch)
		if err := errors.Join(<-first, <-second); err != nil {
			t.Error(err)
		}
	})
}

// Only the epoch is a confirmation, even after steps of the node's clock.
func TestClockSteps(t *testing.T) {
	file := stopFile(t)
	synctest.Test(t, func(t *testing.T) {
		done := start(t.Context(), Options{File: file})
		expectWaiting(t, done)
		for _, step := range []time.Time{
			time.Unix(4e9, 0), time.Unix(1, 0), time.Unix(0, 1), time.Unix(-1, 0), time.Now(),
		} {
			setTime(t, file, step) // another hook makes a request after a clock step
			time.Sleep(time.Minute)
			expectWaiting(t, done)
		}
		setTime(t, file, epoch)
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func TestTimeout(t *testing.T) {
	file := stopFile(t)
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		err := Run(t.Context(), Options{File: file, Timeout: 90 * time.Second})
		if !errors.Is(err, ErrTimeout) || time.Since(begin) != 90*time.Second {
			t.Errorf("after %s: %v", time.Since(begin), err)
		}
	})
	if !requested(t, file) {
		t.Error("the request did not stay")
	}
}

func TestContextEnds(t *testing.T) {
	file := stopFile(t)
	ended := errors.New("SIGTERM")
	for name, before := range map[string]bool{"before the request": true, "while it waits": false} {
		setTime(t, file, epoch)
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			if before {
				cancel(ended)
			}
			done := start(ctx, Options{File: file})
			if !before {
				expectWaiting(t, done)
				cancel(ended)
			}
			if err := <-done; !errors.Is(err, ended) || errors.Is(err, ErrTimeout) {
				t.Errorf("%s: %v", name, err)
			}
		})
		if !requested(t, file) {
			t.Errorf("%s: the request did not stay", name)
		}
	}
}

func TestAnswerAtTheLastMoment(t *testing.T) {
	file := stopFile(t)
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		done := start(ctx, Options{File: file})
		expectWaiting(t, done)
		setTime(t, file, epoch)
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// At the epoch a request looks like a confirmation. The hook repeats it until the clock has moved
// on. Here the test sets the file to the time of such a touch.
func TestClockAtTheEpoch(t *testing.T) {
	file := stopFile(t)
	synctest.Test(t, func(t *testing.T) {
		reads := 0
		now := func() time.Time {
			if reads++; reads > 3 {
				return time.Unix(1, 0)
			}
			setTime(t, file, epoch)
			return time.Unix(0, int64(reads))
		}
		done := start(t.Context(), Options{File: file, now: now})
		time.Sleep(time.Minute)
		expectWaiting(t, done)
		if reads != 4 || !requested(t, file) {
			t.Errorf("after %d reads of the clock: requested = %t", reads, requested(t, file))
		}
		setTime(t, file, epoch)
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func TestClockStaysAtTheEpoch(t *testing.T) {
	file := stopFile(t)
	synctest.Test(t, func(t *testing.T) {
		err := Run(
			t.Context(),
			Options{File: file, Timeout: time.Second, now: func() time.Time { return epoch }},
		)
		if !errors.Is(err, ErrTimeout) {
			t.Error(err)
		}
	})
}

func TestNoDirectory(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pod", "stop")
	if err := Run(t.Context(), Options{File: file}); !errors.Is(err, ErrNoDirectory) {
		t.Errorf("Run without a pod directory = %v", err)
	}
}

func TestBadOptions(t *testing.T) {
	file := stopFile(t)
	for _, o := range []Options{{File: file, Timeout: -1}, {File: file, Poll: -1}} {
		if err := Run(t.Context(), o); err == nil || errors.Is(err, ErrTimeout) {
			t.Errorf("%+v: %v", o, err)
		}
	}
	if requested(t, file) {
		t.Error("Run with bad options made a request")
	}
}
