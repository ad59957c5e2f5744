package cache

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// A killed builder left a mount of the machine's files.
func TestRemoveKeepsMounts(t *testing.T) {
	ownMounts(t)
	s := newStore(t)
	theirs, on := filepath.Join(t.TempDir(), "theirs"),
		s.Dir("thing", string(KeyOf("k"))+".tmp", "de v")
	for _, dir := range []string{theirs, on} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	precious := filepath.Join(theirs, "precious")
	if err := os.WriteFile(precious, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount(theirs, on, "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	defer unix.Unmount(on, unix.MNT_DETACH) //nolint:errcheck // the namespace ends anyway
	_, err := s.Get(t.Context(), "thing", KeyOf("k"), write("x"))
	if err == nil || !strings.Contains(err.Error(), on) {
		t.Errorf("got %v, want an error that names %s", err, on)
	}
	if _, err := s.Prune("thing", 0); err == nil {
		t.Error("Prune did not refuse")
	}
	if _, err := os.Stat(precious); err != nil {
		t.Errorf("deleted through the mount: %v", err)
	}
}

// ownMounts gives this goroutine a thread with its own mount namespace.
func ownMounts(t *testing.T) {
	t.Helper()
	runtime.LockOSThread() // without unlocking: the thread ends with the test
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		t.Skipf("needs to be allowed to make a mount namespace: %v", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		t.Fatal(err)
	}
}

func TestMountPoint(t *testing.T) {
	for line, want := range map[string]string{
		`36 35 98:0 / /mnt rw,noatime master:1 - ext4 /dev/root rw`: "/mnt",
		`36 35 98:0 / /a\040b"c\134d rw - tmpfs none rw`:            `/a b"c\d`,
		``: "",
	} {
		if got := mountPoint(line); got != want {
			t.Errorf("%s: got %q, want %q", line, got, want)
		}
	}
}

func TestWaitIsLogged(t *testing.T) {
	s := newStore(t)
	release, err := s.Lock(t.Context(), "x")
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	ctx, cancel := context.WithCancel(t.Context())
	heard := &listener{then: cancel}
	if _, err := s.LogTo(slog.New(slog.NewTextHandler(heard, nil))).Lock(ctx, "x"); err == nil {
		t.Fatal("two hold one lock")
	}
	if !strings.Contains(heard.String(), "process "+strconv.Itoa(os.Getpid())) {
		t.Errorf("heard %q, want the owner's process", heard)
	}
}

// listener calls then with the first log line.
type listener struct {
	bytes.Buffer
	then func()
}

func (l *listener) Write(p []byte) (int, error) {
	defer l.then()
	return l.Buffer.Write(p)
}

func TestOwned(t *testing.T) {
	s := newStore(t)
	temp, err := s.Temp(t.Context(), "run")
	if err != nil {
		t.Fatal(err)
	}
	if owned, err := Owned(temp.Dir); !owned || err != nil {
		t.Errorf("living owner: got %v, %v", owned, err)
	}
	if err := temp.lock.release(); err != nil { // as the kernel does for a process that was killed
		t.Fatal(err)
	}
	if owned, err := Owned(temp.Dir); owned || err != nil {
		t.Errorf("dead owner: got %v, %v", owned, err)
	}
	if err := s.Sweep(t.Context(), "run"); err != nil {
		t.Error(err)
	}
	if owned, err := Owned(temp.Dir); owned || err != nil || exists(temp.Dir) {
		t.Errorf("swept: got %v, %v", owned, err)
	}
}
