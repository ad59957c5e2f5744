package supervisor

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/mooring-vm/mooring/lifecycle/host"
	"github.com/mooring-vm/mooring/lifecycle/tie"
)

const (
	tiesDir   = "ties"
	formerDir = "former"
	storedExt = ".json"
	newExt    = ".new" // of an unfinished file

	// maxStored bounds the size of a file: a launcher has few VMs.
	maxStored = 1 << 20
)

// containerID matches the container IDs of runtimes. The ID becomes the name of a file.
var containerID = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,127}$`)

// FileStore is a [Store] with one file for each tie, in a directory for root only. The directory
// belongs on a tmpfs. FileStore deletes ties of another boot and does not load them.
//
// Save and Delete must not run concurrently. Another process may have the store open, as the fence
// has while the agent comes back. Each file then has the complete content of the last writer. The
// reader compares that content with the kernel.
type FileStore struct {
	root    *os.Root
	lockDir *os.File // root, for flock
	boot    string
	saved   map[string]string // content of the files, by container ID
}

var _ Store = (*FileStore)(nil)

// storedVersion is the version of layout and meaning of a file. A new field that an older agent may
// ignore needs no new version.
//
//	0 (agents of v0.1.0): no version; start times in ticks
//	1: start times in nanoseconds, see [host.Process]
const storedVersion = 1

// stored is the content of a file.
type stored struct {
	Version int     `json:"version"`
	Boot    string  `json:"boot"`
	Tie     tie.Tie `json:"tie"`
}

// OpenFileStore opens the store below root, such as /run/mooring, and creates its directory. proc
// is the mount point of procfs.
func OpenFileStore(root, proc string) (*FileStore, error) { return openStore(root, tiesDir, proc) }

// OpenFormerStore is OpenFileStore for the store of former launchers. Their files are no ties of
// the fence.
func OpenFormerStore(root, proc string) (*FileStore, error) {
	return openStore(root, formerDir, proc)
}

func openStore(root, name, proc string) (*FileStore, error) {
	boot, err := os.ReadFile(filepath.Join(proc, "sys/kernel/random/boot_id"))
	if err != nil {
		return nil, fmt.Errorf("open the store of ties: %w", err)
	}
	dir := filepath.Join(root, name)
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("open the store of ties: %w", err)
	}
	r, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("open the store of ties: %w", err)
	}
	d, err := r.Open(".")
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open the store of ties: %w", err), r.Close())
	}
	id := strings.TrimSpace(string(boot))
	return &FileStore{root: r, lockDir: d, boot: id, saved: map[string]string{}}, nil
}

// HasTies reports whether a store below root has any tie, or may have: an unreadable directory
// proves nothing. HasTies creates no store.
func HasTies(root string) bool {
	entries, err := os.ReadDir(filepath.Join(root, tiesDir))
	if errors.Is(err, fs.ErrNotExist) {
		return false
	}
	stored := func(e fs.DirEntry) bool { return filepath.Ext(e.Name()) == storedExt }
	return err != nil || slices.ContainsFunc(entries, stored)
}

// Close closes the directory of the store.
func (s *FileStore) Close() error { return errors.Join(s.lockDir.Close(), s.root.Close()) }

// Save implements [Store]. It replaces the file of a changed tie atomically. An unchanged tie costs
// no system call.
func (s *FileStore) Save(t tie.Tie) error {
	id := t.Launcher.Container.ID
	if !containerID.MatchString(id) {
		return fmt.Errorf("save the tie of container %q: invalid ID", id)
	}
	data, err := json.Marshal(stored{storedVersion, s.boot, t})
	if err != nil || s.saved[id] == string(data) {
		return err
	}
	if err := s.writeFile(id, data); err != nil {
		return fmt.Errorf("save the tie of container %s: %w", id, err)
	}
	s.saved[id] = string(data)
	return nil
}

// writeFile writes a file under a shared lock, so that a concurrent Load keeps the unfinished file.
func (s *FileStore) writeFile(id string, data []byte) error {
	if err := s.lock(unix.LOCK_SH); err != nil {
		return err
	}
	defer s.unlock()
	unfinished := id + "." + rand.Text() + newExt
	err := s.root.WriteFile(unfinished, data, 0o600)
	if err == nil {
		err = s.root.Rename(unfinished, id+storedExt)
	}
	if err != nil {
		_ = s.root.Remove(unfinished) // or a later Load does
	}
	return err
}

func (s *FileStore) lock(how int) error {
	if err := ignoringEINTR(func() error { return unix.Flock(int(s.lockDir.Fd()), how) }); err !=
		nil {
		return fmt.Errorf("lock the directory: %w", err)
	}
	return nil
}

func (s *FileStore) unlock() { _ = unix.Flock(int(s.lockDir.Fd()), unix.LOCK_UN) }

func ignoringEINTR(call func() error) error {
	for {
		if err := call(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// Delete implements [Store].
func (s *FileStore) Delete(id string) error {
	delete(s.saved, id)
	if !containerID.MatchString(id) {
		return nil
	}
	if err := ignoreNotExist(s.root.Remove(id + storedExt)); err != nil {
		return fmt.Errorf("delete the tie of container %s: %w", id, err)
	}
	return nil
}

// Load implements [Store]. It skips unreadable ties and names them in the error. It deletes
// unfinished files, which a crash has left.
func (s *FileStore) Load() (ties []tie.Tie, err error) {
	entries, err := fs.ReadDir(s.root.FS(), ".")
	if err != nil {
		return nil, fmt.Errorf("load the ties: %w", err)
	}
	errs := []error{s.removeUnfinished(entries)}
	for _, e := range entries {
		if id, ok := strings.CutSuffix(e.Name(), storedExt); ok {
			t, currentBoot, err := s.load(id)
			if err != nil {
				errs = append(errs, fmt.Errorf("load the tie of container %s: %w", id, err))
			} else if currentBoot {
				ties = append(ties, t)
			}
		}
	}
	return ties, errors.Join(errs...)
}

// removeUnfinished deletes unfinished files, unless another process is writing one now.
func (s *FileStore) removeUnfinished(entries []fs.DirEntry) error {
	err := s.lock(unix.LOCK_EX | unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return nil
	}
	if err != nil {
		return err
	}
	defer s.unlock()
	var errs []error
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), newExt) {
			errs = append(errs, ignoreNotExist(s.root.Remove(e.Name())))
		}
	}
	return errors.Join(errs...)
}

// ignoreNotExist replaces fs.ErrNotExist by nil.
func ignoreNotExist(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// load reads one tie. currentBoot is false for a tie of another boot, which load deletes.
func (s *FileStore) load(id string) (t tie.Tie, currentBoot bool, err error) {
	data, err := s.readFile(id)
	if err != nil {
		return t, false, err
	}
	t, boot, err := decodeStored(data)
	switch {
	case err != nil:
		return t, false, err
	case boot != s.boot:
		return t, false, s.Delete(id)
	case t.Launcher.Container.ID != id:
		return t, false, fmt.Errorf("it has the tie of container %q", t.Launcher.Container.ID)
	}
	return t, true, nil
}

func (s *FileStore) readFile(id string) ([]byte, error) {
	info, err := s.root.Lstat(id + storedExt)
	if err != nil {
		return nil, err
	}
	if info.Size() > maxStored || !info.Mode().IsRegular() {
		return nil, fmt.Errorf("not a regular file of at most %d bytes", maxStored)
	}
	return s.root.ReadFile(id + storedExt)
}

// UnreadableTie returns an error if a tie that Load skips may be of this pod. It reads all files,
// and may run concurrently with the other methods.
func (s *FileStore) UnreadableTie(podUID string) error {
	entries, err := fs.ReadDir(s.root.FS(), ".")
	if err != nil {
		return fmt.Errorf("read the stored ties: %w", err)
	}
	for _, e := range entries {
		id, ok := strings.CutSuffix(e.Name(), storedExt)
		if !ok {
			continue
		}
		data, err := s.readFile(id)
		if err == nil {
			_, _, err = decodeStored(data)
		}
		if ignoreNotExist(err) != nil && s.mayBeOf(data, podUID) {
			return fmt.Errorf("the stored tie of container %s is unreadable, and may have a VM of "+
				"the pod: %w", id, err)
		}
	}
	return nil
}

// mayBeOf reports whether the content of an unreadable file may be a tie of this boot and pod.
func (s *FileStore) mayBeOf(data []byte, podUID string) bool {
	var content struct {
		Boot string
		Tie  struct {
			Launcher struct{ Pod struct{ UID string } }
		}
	}
	if json.Unmarshal(data, &content) != nil {
		return true
	}
	uid := content.Tie.Launcher.Pod.UID
	return (content.Boot == "" || content.Boot == s.boot) && (uid == "" || uid == podUID)
}

// decodeStored reads the content of a file.
func decodeStored(data []byte) (t tie.Tie, boot string, err error) {
	var content stored
	if err := json.Unmarshal(data, &content); err != nil {
		return t, "", err
	}
	if content.Boot == "" {
		return t, "", errors.New("it has no boot ID")
	}
	if content.Version > storedVersion || content.Version < 0 {
		return t, "", fmt.Errorf("version %d of the file is unknown: this agent reads 0 to %d",
			content.Version, storedVersion)
	}
	if content.Version == 0 {
		convertTicks(&content.Tie)
	}
	return content.Tie, content.Boot, nil
}

// convertTicks converts the start times of version 0.
func convertTicks(t *tie.Tie) {
	if p := t.LauncherProcess; p != nil {
		p.StartTime = host.ProcessAt(p.PID, p.StartTime).StartTime
	}
	for i := range t.VMs {
		p := &t.VMs[i].Process
		p.StartTime = host.ProcessAt(p.PID, p.StartTime).StartTime
	}
}
