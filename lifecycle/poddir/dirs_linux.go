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
	podsDir  = "pods"  // <uid>/: the directory in the pod's launcher
	trashDir = "trash" // directories to delete
	touchDir = "pod"   // <uid>/pod/: the files that a pod may touch
	hookFile = "hook"  // <uid>/hook: mount point of the hook program
)

// podUID matches UIDs of the API server and of kubelet (static pods): a UUID or a hash. The UID is
// the name of the directory.
var podUID = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`)

// Dirs creates and deletes the directories shared by pods and agent: <root>/pods/<uid>, and in it
// pod/heartbeat and pod/stop, which the pod may touch. Root should be a bounded tmpfs: see [Mount].
//
// All pods share that tmpfs, and the agent's socket is in it. So a pod must not be able to use
// space in it: the files are named pipes without a reader. Pods can touch them like regular files,
// but they have no content and no extended attributes, which tmpfs counts as inodes (since Linux
// 6.6).
//
// The methods may be called concurrently. Create and DiscardUnless make a handful of system calls
// on a tmpfs, so NRI handlers may call them.
type Dirs struct {
	// Logger gets problems with kernel notifications. Set it before Watch. nil: no log.
	Logger *slog.Logger

	root        string
	pods, trash int // open directories

	mu   sync.Mutex // excludes Create from DiscardUnless; not held during deletion
	next int        // makes names in trash unique

	changes podChanges // for Watch
	sockets podChanges // for Follow
}

// Dir is a pod's directory on the node. The pod must see it read-only except for the two files,
// each a writable mount of its own, so that not even root in the pod can create a file.
type Dir struct {
	Path string // mounted at /run/mooring in the launcher

	Heartbeat string // mounted at /run/mooring/pod/heartbeat
	Stop      string // mounted at /run/mooring/pod/stop

	// Hook is an empty file, the mount point of the hook program at /run/mooring/hook. A mount in a
	// read-only directory needs an existing mount point.
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
	// Only root may pass: the files below are open to every user who gets there.
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

// Create creates the directory of a pod. An existing directory keeps its times; Create resets its
// modes and adds missing files. It replaces a directory with another layout.
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

// changed reports a created or removed directory to the readers.
func (d *Dirs) changed(uid string) {
	d.changes.add(uid)
	d.sockets.add(uid)
}

// ensure creates or repairs the directory. The caller holds the lock.
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

// ensureDir opens a directory below another, and creates it if necessary.
func ensureDir(parent int, name string, mode uint32) (int, error) {
	if err := unix.Mkdirat(parent, name, mode); err != nil && !errors.Is(err, unix.EEXIST) {
		return -1, fmt.Errorf("mkdir %s: %w", name, err)
	}
	fd, err := openDir(parent, name, unix.RESOLVE_BENEATH)
	if err != nil {
		return -1, err
	}
	if err := unix.Fchmod(fd, mode); err != nil { // because of the umask of mkdir
		unix.Close(fd)
		return -1, fmt.Errorf("chmod %s: %w", name, err)
	}
	return fd, nil
}

// openDir opens a directory without following symbolic links in name.
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
