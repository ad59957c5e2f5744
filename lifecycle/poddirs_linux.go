package lifecycle

import (
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"sync"

	"golang.org/x/sys/unix"
)

// Names below the root of the pod directories.
const (
	podsDir     = "pods"  // <uid>/: what a pod's launcher sees as a whole, read-only
	trashDir    = "trash" // what is to be deleted
	writableDir = "pod"   // <uid>/pod: the only part that a pod may write
)

// podUID is what the API server and kubelet (static pods) give out: a UUID or a
// hash. It becomes the name of a directory.
var podUID = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`)

// PodDirs makes and deletes the directories that pods share with the agent:
// <root>/pods/<uid>, which the pod sees read-only, and in it pod/, which it may
// write. Root should be a tmpfs with bounds: see [MountPodDirs].
//
// A pod controls what is below pod/, so paths are walked without following
// symbolic links. The methods may be called from several goroutines at once;
// Create and Discard make a handful of system calls on a tmpfs and may be called
// from NRI handlers.
type PodDirs struct {
	root        string
	pods, trash int // open directories

	mu   sync.Mutex // held by Create against Retain: never while deleting
	next int        // makes names in trash unique
}

// PodDir is a pod's directory on the node.
type PodDir struct {
	Path     string // what the launcher sees at /run/mooring
	Writable string // and at /run/mooring/pod
}

// OpenPodDirs prepares root, which must exist, for pod directories.
func OpenPodDirs(root string) (*PodDirs, error) {
	fd, err := openDir(unix.AT_FDCWD, root, 0)
	if err != nil {
		return nil, fmt.Errorf("root of pod directories: %w", err)
	}
	defer unix.Close(fd)
	d := &PodDirs{root: root, pods: -1, trash: -1}
	// Nobody but root may pass: pod/ below is open to everyone who gets there.
	if d.pods, err = ensureDir(fd, podsDir, 0o700); err == nil {
		d.trash, err = ensureDir(fd, trashDir, 0o700)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("pod directories below %s: %w", root, err), d.Close())
	}
	return d, nil
}

// Close releases the open directories. d must not be used afterwards.
func (d *PodDirs) Close() error {
	var errs []error
	for _, fd := range []int{d.pods, d.trash} {
		if fd >= 0 {
			errs = append(errs, unix.Close(fd))
		}
	}
	return errors.Join(errs...)
}

// Dir returns the directory of a pod, which need not exist.
func (d *PodDirs) Dir(uid string) PodDir {
	path := filepath.Join(d.root, podsDir, uid)
	return PodDir{Path: path, Writable: filepath.Join(path, writableDir)}
}

// Create makes the directory of a pod. One that exists already is kept, and its
// modes are set again.
func (d *PodDirs) Create(uid string) (PodDir, error) {
	if err := checkUID(uid); err != nil {
		return PodDir{}, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	dir, err := ensureDir(d.pods, uid, 0o755)
	if err != nil {
		return PodDir{}, fmt.Errorf("pod directory %s: %w", uid, err)
	}
	defer unix.Close(dir)
	writable, err := ensureDir(dir, writableDir, 0o777)
	if err != nil {
		return PodDir{}, fmt.Errorf("pod directory %s: %w", uid, err)
	}
	return d.Dir(uid), unix.Close(writable)
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
