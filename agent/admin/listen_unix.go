//go:build unix

package admin

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

const (
	socketMode = 0o600
	lockSuffix = ".lock"
	// maxPath is the size of the path in sockaddr_un without its final NUL, see unix(7).
	maxPath = 107
)

// ErrInUse means that another process serves the socket.
var ErrInUse = errors.New("another mooring-agent serves this socket")

// Listen opens the unix socket at path with mode 0600. It replaces the socket of a dead
// process. If another process serves the socket, the error wraps [ErrInUse]. The directory
// must exist. Closing the listener removes the socket.
//
// The holder of a lock file beside the socket may serve it. Listen never removes the lock
// file: otherwise two processes could hold locks on two files of this name.
func Listen(ctx context.Context, path string) (net.Listener, error) {
	if len(path) > maxPath {
		return nil,
			fmt.Errorf("listen on %q: the path has %d bytes, want at most %d for a unix socket",
				path, len(path), maxPath)
	}
	lock, err := acquire(path + lockSuffix)
	if err != nil {
		return nil, fmt.Errorf("listen on %q: %w", path, err)
	}
	inner, err := listenLocked(ctx, path)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("listen on %q: %w", path, err), lock.Close())
	}
	return &listener{Listener: inner, lock: lock}, nil
}

func listenLocked(ctx context.Context, path string) (net.Listener, error) {
	if err := removeStale(ctx, path); err != nil {
		return nil, err
	}
	config := net.ListenConfig{Control: restrictMode}
	return config.Listen(ctx, "unix", path)
}

// restrictMode sets the mode of the socket before bind creates the file with this mode. A
// later chmod would leave a moment in which every user can connect.
func restrictMode(_, _ string, conn syscall.RawConn) error {
	var chmodErr error
	err := conn.Control(func(fd uintptr) {
		chmodErr = unix.Fchmod(int(fd), socketMode)
	})
	return errors.Join(err, chmodErr)
}

func acquire(path string) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|unix.O_NOFOLLOW, socketMode)
	if err != nil {
		return nil, fmt.Errorf("open the lock file: %w", err)
	}
	err = unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err == nil {
		return file, nil
	}
	if errors.Is(err, unix.EWOULDBLOCK) {
		err = ErrInUse
	}
	return nil, errors.Join(fmt.Errorf("lock %q: %w", path, err), file.Close())
}

func removeStale(ctx context.Context, path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("check for an old socket: %w", err)
	case info.Mode().Type() != os.ModeSocket:
		return fmt.Errorf("the file exists and is not a socket (%s): not removed",
			info.Mode().Type())
	}
	conn, err := new(net.Dialer).DialContext(ctx, "unix", path)
	switch {
	case err == nil:
		return errors.Join(ErrInUse, conn.Close())
	case !errors.Is(err, unix.ECONNREFUSED):
		return fmt.Errorf("check whether the old socket is in use: %w", err)
	}
	if err := os.Remove(path); err != nil {
		return fmt.Errorf("remove the old socket: %w", err)
	}
	return nil
}

// listener holds the lock while it listens.
type listener struct {
	net.Listener
	lock *os.File
}

// Close stops listening, removes the socket and then releases the lock.
func (l *listener) Close() error {
	return errors.Join(l.Listener.Close(), l.lock.Close())
}
