package poddir

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// Names in a pod's directory.
const (
	socketFile = "agent.sock"  // where the agent answers the pod
	reportFile = "resize.json" // what the pod said of its last resize

	// unfinished begins the name of what is being made.
	unfinished = ".new."

	socketMode = 0o666
	reportMode = 0o444
)

// followPoll is the time between two looks at all directories.
const followPoll = 10 * time.Second

// ID tells a pod's directory from another that had the same name.
type ID struct{ dev, ino uint64 }

// Follow calls changed with the UID of each pod that has a directory, and whenever one
// may have been made or taken away, until ctx is done; then it returns nil. It may be
// called once at a time, beside Watch. changed is called from one goroutine, now and
// then without need.
func (d *Dirs) Follow(ctx context.Context, changed func(uid string)) error {
	if !d.sockets.begin() {
		return errors.New("follow pod directories: somebody does already")
	}
	defer d.sockets.end()
	round := time.NewTicker(followPoll)
	defer round.Stop()
	for {
		uids, err := namesIn(d.pods)
		if err != nil && d.Logger != nil {
			d.Logger.Warn("pod directories cannot be listed; it is tried again", "error", err)
		}
		for _, uid := range uids {
			changed(uid)
		}
		if !d.followSome(ctx, round.C, changed) {
			return nil
		}
	}
}

// followSome tells of single directories until the next round; false: ctx is done.
func (d *Dirs) followSome(ctx context.Context, round <-chan time.Time, changed func(string)) bool {
	for {
		select {
		case <-ctx.Done():
			return false
		case <-round:
			return true
		case <-d.sockets.some:
			for uid := range d.sockets.take() {
				changed(uid)
			}
		}
	}
}

// ID returns which directory the pod has now; the error wraps fs.ErrNotExist if none.
func (d *Dirs) ID(uid string) (ID, error) {
	dir, err := d.open(uid)
	if err != nil {
		return ID{}, err
	}
	defer unix.Close(dir)
	return dirID(dir)
}

// Listen makes the socket in a pod's directory, in place of the one that an earlier
// agent has left there, and listens on it. Everybody who gets at the directory may
// connect. Closing the listener leaves the file, which goes with the directory.
func (d *Dirs) Listen(ctx context.Context, uid string) (net.Listener, ID, error) {
	dir, err := d.open(uid)
	if err != nil {
		return nil, ID{}, err
	}
	defer unix.Close(dir)
	id, err := dirID(dir)
	if err != nil {
		return nil, id, err
	}
	l, err := listenIn(ctx, dir)
	if err != nil {
		return nil, id, fmt.Errorf("socket of pod %s: %w", uid, err)
	}
	return l, id, nil
}

// listenIn has the socket listen before it gets its name, so nobody finds one that does
// not answer. A path of the directory would be too long for a socket's address.
func listenIn(ctx context.Context, dir int) (net.Listener, error) {
	const name = unfinished + socketFile
	if err := remove(dir, name); err != nil {
		return nil, err
	}
	config := net.ListenConfig{}
	l, err := config.Listen(ctx, "unix", filepath.Join("/proc/self/fd", strconv.Itoa(dir), name))
	if err != nil {
		return nil, err
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	err = unix.Fchmodat(dir, name, socketMode, 0)
	if err == nil {
		err = rename(dir, name, socketFile)
	}
	if err != nil {
		return nil, errors.Join(err, l.Close(), remove(dir, name))
	}
	return l, nil
}

// WriteReport leaves data in the pod's directory, for the pod to read: whole or not at
// all. It makes a few system calls on a tmpfs. The caller bounds the size.
func (d *Dirs) WriteReport(uid string, data []byte) error {
	dir, err := d.open(uid)
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	const name = unfinished + reportFile
	if err := remove(dir, name); err != nil {
		return fmt.Errorf("pod directory %s: %w", uid, err)
	}
	err = writeIn(dir, name, data)
	if err == nil {
		err = rename(dir, name, reportFile)
	}
	if err != nil {
		return fmt.Errorf("pod directory %s: %w", uid, errors.Join(err, remove(dir, name)))
	}
	return nil
}

func writeIn(dir int, name string, data []byte) error {
	fd, err := unix.Openat2(dir, name, &unix.OpenHow{
		Flags:   unix.O_WRONLY | unix.O_CREAT | unix.O_EXCL | unix.O_CLOEXEC,
		Mode:    reportMode,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
	})
	if err != nil {
		return fmt.Errorf("make %s: %w", name, err)
	}
	file := os.NewFile(uintptr(fd), name)
	_, err = file.Write(data)
	return errors.Join(err, file.Chmod(reportMode), file.Close()) // open is subject to the umask
}

// open opens the directory of a pod; the error wraps fs.ErrNotExist if there is none.
func (d *Dirs) open(uid string) (int, error) {
	if err := checkUID(uid); err != nil {
		return -1, err
	}
	dir, err := openDir(d.pods, uid, unix.RESOLVE_BENEATH)
	if err != nil {
		return -1, fmt.Errorf("pod directory %s: %w", uid, err)
	}
	return dir, nil
}

func dirID(dir int) (ID, error) {
	var st unix.Stat_t
	if err := unix.Fstat(dir, &st); err != nil {
		return ID{}, fmt.Errorf("stat: %w", err)
	}
	return ID{dev: st.Dev, ino: st.Ino}, nil
}

func remove(dir int, name string) error {
	if err := unix.Unlinkat(dir, name, 0); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove %s: %w", name, err)
	}
	return nil
}

func rename(dir int, from, to string) error {
	if err := unix.Renameat(dir, from, dir, to); err != nil {
		return fmt.Errorf("rename to %s: %w", to, err)
	}
	return nil
}
