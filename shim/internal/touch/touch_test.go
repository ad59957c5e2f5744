package touch_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mooring-vm/mooring/shim/internal/touch"
)

func pipe(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "pipe")
	if err := unix.Mkfifo(path, 0o666); err != nil {
		t.Fatal(err)
	}
	setTime(t, path, time.Unix(0, 0))
	return path
}

func setTime(t *testing.T, path string, to time.Time) {
	t.Helper()
	if err := os.Chtimes(path, to, to); err != nil {
		t.Fatal(err)
	}
}

// The pipe has no reader, so an open would block the test.
func TestTouch(t *testing.T) {
	path := pipe(t)
	for _, from := range []time.Time{time.Unix(0, 0), time.Now().Add(time.Hour),
		time.Now().Add(-time.Hour)} {
		setTime(t, path, from)
		if err := touch.Touch(path); err != nil {
			t.Fatal(err)
		}
		if at, err := touch.At(path); err != nil || at.IsZero() || at.Equal(from) {
			t.Errorf("touched at %s, %v; before at %s", at, err, from)
		}
	}
}

func TestAt(t *testing.T) {
	path := pipe(t)
	for _, test := range []struct {
		set  time.Time
		zero bool
	}{{time.Unix(0, 0), true}, {time.Unix(0, 1), false}, {time.Unix(-1, 0), false},
		{time.Unix(4e9, 0), false}} {
		setTime(t, path, test.set)
		at, err := touch.At(path)
		if err != nil || at.IsZero() != test.zero || !test.zero && !at.Equal(test.set) {
			t.Errorf("with time %s: %s, %v", test.set, at, err)
		}
	}
}

func TestNoDirectory(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{filepath.Join(dir, "none"), filepath.Join(dir, "none", "stop"),
		filepath.Join(file, "stop")} {
		_, err := touch.At(path)
		for _, err := range []error{touch.Touch(path), err} {
			if !errors.Is(err, touch.ErrNoDirectory) {
				t.Errorf("%s: %v", path, err)
			}
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a touch made the file: %v", err)
	}
}

func TestTouchFollowsNoLink(t *testing.T) {
	path := pipe(t)
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	if err := touch.Touch(link); err != nil {
		t.Fatal(err)
	}
	if at, err := touch.At(path); err != nil || !at.IsZero() {
		t.Errorf("the file behind the link was touched at %s, %v", at, err)
	}
}
