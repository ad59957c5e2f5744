package poddir

import (
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"regexp"
	"sync"

	"golang.org/x/sys/unix"
)

// Names below the root of the pod directories.
const (
	podsDir  = "pods"  // <uid>/: what a pod's launcher sees
	trashDir = "trash" // what is to be deleted
	touchDir = "pod"   // <uid>/pod/: the files that a pod may touch
	hookFile = "hook"  // <uid>/hook: where the hook program is mounted
)

// podUID is what the API server and kubelet (static pods) give out: a UUID or a
// hash. It becomes the name of a directory.
var podUID = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`)

// Dirs makes and deletes the directories that pods share with the agent:
// <root>/pods/<uid>, and in it pod/heartbeat and pod/stop, which the pod may
// touch. Root should be a tmpfs with bounds: see [Mount].
//
// All pods share that tmpfs, and the agent needs room in it for its socket. So a
// pod must not be able to take any of it: the files are named pipes that nobody
// reads. They are touched like regular files, hold no content, and have no
// extended attributes, which tmpfs counts as inodes (Linux 6.6 and later).
//
// The methods may be called from several goroutines at once; Create and
// DiscardUnless make a handful of system calls on a tmpfs and may be called from
// NRI handlers.
type Dirs struct {
	// Logger is told what keeps Watch from hearing of signs at once. It is set
	// before Watch is called; nil: nobody is told.
	Logger *slog.Logger

	root        string
	pods, trash int // open directories

	mu   sync.Mutex // held by Create against DiscardUnless: never while deleting
	next int        // makes names in trash unique

	changes podChanges // for Watch
	sockets podChanges // for Follow
}

// Dir is a pod's directory on the node. The pod is to see all of it read-only
// but for the two files, each a writable mount of its own, so that not even root
// in the pod can make a file.
type Dir struct {
	Path string // what the launcher sees at /run/mooring

	Heartbeat string // and at /run/mooring/pod/heartbeat
	Stop      string // and at /run/mooring/pod/stop

	// Hook is an empty file, on which a program for the pod is mounted at
	// /run/mooring/hook: in a read-only directory a mount needs one to be there.
	Hook string
}

// Open prepares root, which must exist, for pod directories.
func Open(root string) (*Dirs, error) {
	fd, err := openDir(unix.AT_FDCWD, root, 0)
	if err != nil {
		return nil, fmt.Errorf("root of pod directories: %w", err)
	}
	defer unix.Close(fd)
	d := &Dirs{root: root, pods: -1, trash: -1}
	d.changes.some, d.sockets.some = make(chan struct{}, 1), make(chan struct{}, 1)
	// Nobody but root may pass: the files below are open to everyone who gets there.
	if d.pods, err = ensureDir(fd, podsDir, 0o700); err == nil {
		d.trash, err = ensureDir(fd, trashDir, 0o700)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("pod directories below %s: %w", root, err), d.Close())
	}
	return d, nil
}

// Close releases the open directories. d must not be used afterwards.
func (d *Dirs) Close() error {
	var errs []error
	for _, fd := range []int{d.pods, d.trash} {
		if fd >= 0 {
			errs = append(errs, unix.Close(fd))
		}
	}
	return errors.Join(errs...)
}

// Dir returns the directory of a pod, which need not exist.
func (d *Dirs) Dir(uid string) Dir {
	path := filepath.Join(d.root, podsDir, uid)
	return Dir{
		Path:      path,
		Heartbeat: filepath.Join(path, touchDir, heartbeatFile),
		Stop:      filepath.Join(path, touchDir, stopFile),
		Hook:      filepath.Join(path, hookFile),
	}
}

// Create makes the directory of a pod. One that exists already is kept: its modes
// are set again, what an earlier agent did not make is added, and when its files were
// touched stays known. What is not laid out like one is replaced.
func (d *Dirs) Create(uid string) (Dir, error) {
	if err := checkUID(uid); err != nil {
		return Dir{}, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	err := d.ensure(uid)
	if isForeign(err) {
		if err = d.discard(uid); err == nil {
			err = d.ensure(uid)
		}
	}
	if err != nil {
		return Dir{}, fmt.Errorf("pod directory %s: %w", uid, err)
	}
	d.changed(uid)
	return d.Dir(uid), nil
}

// changed tells of a directory that came or went.
func (d *Dirs) changed(uid string) {
	d.changes.add(uid)
	d.sockets.add(uid)
}

// ensure needs the lock.
func (d *Dirs) ensure(uid string) error {
	dir, err := ensureDir(d.pods, uid, 0o755)
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	if err := ensureMountPoint(dir, hookFile); err != nil {
		return err
	}
	touch, err := ensureDir(dir, touchDir, 0o755)
	if err != nil {
		return err
	}
	defer unix.Close(touch)
	for _, name := range []string{heartbeatFile, stopFile} {
		if err := ensureTouchable(touch, name); err != nil {
			return err
		}
	}
	return nil
}

func checkUID(uid string) error {
	if !podUID.MatchString(uid) {
		return fmt.Errorf("pod UID %.140q: want letters, digits, and . _ - between them", uid)
	}
	return nil
}

// ensureDir opens a directory below another, and makes it if it is not there.
func ensureDir(parent int, name string, mode uint32) (int, error) {
	if err := unix.Mkdirat(parent, name, mode); err != nil && !errors.Is(err, unix.EEXIST) {
		return -1, fmt.Errorf("mkdir %s: %w", name, err)
	}
	fd, err := openDir(parent, name, unix.RESOLVE_BENEATH)
	if err != nil {
		return -1, err
	}
	if err := unix.Fchmod(fd, mode); err != nil { // mkdir is subject to the umask
		unix.Close(fd)
		return -1, fmt.Errorf("chmod %s: %w", name, err)
	}
	return fd, nil
}

// openDir opens a directory without following symbolic links anywhere in name.
func openDir(parent int, name string, resolve uint64) (int, error) {
	fd, err := unix.Openat2(parent, name, &unix.OpenHow{
		Flags:   unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC,
		Resolve: resolve | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
	})
	if err != nil {
		return -1, fmt.Errorf("open directory %s: %w", name, err)
	}
	return fd, nil
}
