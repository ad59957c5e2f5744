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

	"github.com/mooring-vm/mooring/api/vmfile"
)

// Names in a pod's directory.
const (
	socketFile = "agent.sock"  // the agent's socket for the pod
	reportFile = "resize.json" // the pod's last resize report

	// unfinished starts the names of unfinished files.
	unfinished = ".new."

	socketMode = 0o666
	reportMode = 0o444
)

// followPoll is the period of scans of all directories.
const followPoll = 10 * time.Second

// ID distinguishes a pod's directory from an earlier one with the same name.
type ID struct{ dev, ino uint64 }

// Follow calls changed with the UID of each pod with a directory, and again after its directory may
// have been created or removed, until ctx ends; then it returns nil. Only one Follow may run at
// a time; Watch may run beside it. All calls of changed come from one goroutine. Some are spurious.
func (d *Dirs) Follow(ctx context.Context, changed func(uid string)) error {
	if !d.sockets.start() {
		return errors.New("follow pod directories: already followed")
	}
	defer d.sockets.stop()
	round := time.NewTicker(followPoll)
	defer round.Stop()
	for {
		uids, err := namesIn(d.pods)
		if err != nil && d.Logger != nil {
			d.Logger.Warn("cannot list pod directories, retrying", "error", err)
		}
		for _, uid := range uids {
			changed(uid)
		}
		if !d.followUntilRound(ctx, round.C, changed) {
			return nil
		}
	}
}

// followUntilRound reports single directories until the next scan. It returns false when ctx is
// done.
func (d *Dirs) followUntilRound(
	ctx context.Context, round <-chan time.Time, changed func(string),
) bool {
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

// ID returns the ID of the pod's current directory. The error wraps fs.ErrNotExist if there is
// none.
func (d *Dirs) ID(uid string) (ID, error) {
	dir, err := d.open(uid)
	if err != nil {
		return ID{}, err
	}
	defer unix.Close(dir)
	return dirID(dir)
}

// Listen creates the socket in a pod's directory, replacing one of an earlier agent, and listens on
// it. Every user with access to the directory may connect. Closing the listener keeps the file,
// which is deleted with the directory.
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

// listenIn listens on the socket before it gets its name, so clients never find a socket that does
// not answer. The directory's path would be too long for a socket address.
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

// WriteReport replaces the report in the pod's directory atomically. It makes a few system calls on
// a tmpfs. The caller bounds the size.
func (d *Dirs) WriteReport(uid string, data []byte) error {
	return d.replace(uid, reportFile, data)
}

// WriteVM replaces the state of the pod's node-level VM in the pod's directory, as WriteReport
// does.
func (d *Dirs) WriteVM(uid string, data []byte) error { return d.replace(uid, vmfile.Name, data) }

// replace replaces a file of a pod's directory.
func (d *Dirs) replace(uid, file string, data []byte) error {
	dir, err := d.open(uid)
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	name := unfinished + file
	if err := remove(dir, name); err != nil {
		return fmt.Errorf("pod directory %s: %w", uid, err)
	}
	err = writeIn(dir, name, data)
	if err == nil {
		err = rename(dir, name, file)
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
	return errors.Join(err, file.Chmod(reportMode), file.Close()) // because of the umask of open
}

// open opens the directory of a pod. The error wraps fs.ErrNotExist if there is none.
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
