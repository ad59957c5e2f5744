package admin

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func socketPath(t *testing.T) string {
	t.Helper()
	return filepath.Join(t.TempDir(), "agent.sock")
}

func mustListen(t *testing.T, path string) net.Listener {
	t.Helper()
	l, err := Listen(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestListenIsForItsOwnerOnly(t *testing.T) {
	// With umask 0, the mode comes from Listen alone.
	defer unix.Umask(unix.Umask(0))
	path := socketPath(t)
	l := mustListen(t, path)
	defer l.Close()
	for _, file := range []string{path, path + lockSuffix} {
		info, err := os.Stat(file)
		if err != nil {
			t.Fatal(err)
		}
		if mode := info.Mode().Perm(); mode != socketMode {
			t.Errorf("%s has mode %o, want %o", filepath.Base(file), mode, socketMode)
		}
	}
}

func TestCloseRemovesTheSocket(t *testing.T) {
	path := socketPath(t)
	if err := mustListen(t, path).Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("after Close the socket is still there: %v", err)
	}
	if err := mustListen(t, path).Close(); err != nil {
		t.Errorf("listening again: %v", err)
	}
}

// abandon creates the socket file of a killed process.
func abandon(t *testing.T, path string) {
	t.Helper()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestListenReplacesAStaleSocket(t *testing.T) {
	path := socketPath(t)
	abandon(t, path)
	l := mustListen(t, path)
	defer l.Close()
	conn, err := net.Dial("unix", path)
	if err != nil {
		t.Fatalf("the new socket does not answer: %v", err)
	}
	conn.Close()
}

func TestListenDoesNotStealALiveSocket(t *testing.T) {
	path := socketPath(t)
	first := mustListen(t, path)
	defer first.Close()
	if _, err := Listen(t.Context(), path); !errors.Is(err, ErrInUse) {
		t.Errorf("second Listen: %v, want ErrInUse", err)
	}
	if _, err := os.Lstat(path); err != nil {
		t.Errorf("the first socket is gone: %v", err)
	}
}

func TestListenDoesNotStealASocketWithoutALock(t *testing.T) {
	path := socketPath(t)
	stranger, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer stranger.Close()
	if _, err := Listen(t.Context(), path); !errors.Is(err, ErrInUse) {
		t.Errorf("Listen on a served socket without a lock: %v, want ErrInUse", err)
	}
}

func TestListenRefuses(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(dir, "link")
	if err := os.Symlink(file, link+lockSuffix); err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct{ path, want string }{
		"a regular file":      {file, "is not a socket"},
		"a lock that is link": {link, "lock file"},
		"no such directory":   {filepath.Join(dir, "missing", "s"), "no such file"},
		"a path too long":     {"/" + strings.Repeat("x", maxPath), "108 bytes"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			l, err := Listen(t.Context(), tt.path)
			if err == nil {
				l.Close()
				t.Fatal("no error")
			}
			if !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %q does not say %q", err, tt.want)
			}
		})
	}
	if content, err := os.ReadFile(file); err != nil || string(content) != "precious" {
		t.Errorf("the file was touched: %q, %v", content, err)
	}
}
