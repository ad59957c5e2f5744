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

	"github.com/mooring-vm/mooring/lifecycle/tie"
)

const (
	tiesDir   = "ties"
	storedExt = ".json"
	newExt    = ".new" // of a file that is being written

	// maxStored bounds what is read of one file: a launcher has few VMs.
	maxStored = 1 << 20
)

// containerID is what runtimes call containers. It becomes the name of a file.
var containerID = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,127}$`)

// FileStore is a [Store] of one file for each tie, in a directory that only root may
// enter. It belongs on a tmpfs; should it outlive the node's boot all the same, what
// it has is of another boot and is not loaded.
//
// Save and Delete must not be called at once. Another process may have the store open,
// too, as the fence has for the moment in which the agent comes back: each file is that
// of one or the other, whole, and the last one to write it has its way. What it says is
// compared with the kernel by whoever loads it.
type FileStore struct {
	root *os.Root
	dir  *os.File // the same, to be locked
	boot string
	last map[string]string // what each file has, by container ID
}

var _ Store = (*FileStore)(nil)

// stored is the content of a file.
type stored struct {
	Boot string  `json:"boot"`
	Tie  tie.Tie `json:"tie"`
}

// OpenFileStore opens the store below root, such as /run/mooring, and makes it.
// proc is where procfs is mounted.
func OpenFileStore(root, proc string) (*FileStore, error) {
	boot, err := os.ReadFile(filepath.Join(proc, "sys/kernel/random/boot_id"))
	if err != nil {
		return nil, fmt.Errorf("open the store of ties: %w", err)
	}
	dir := filepath.Join(root, tiesDir)
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
	return &FileStore{root: r, dir: d, boot: strings.TrimSpace(string(boot)), last: map[string]string{}}, nil
}

// HasTies reports whether a store below root has any tie, or may have: what cannot be
// looked at is no proof that there is none. It makes no store.
func HasTies(root string) bool {
	entries, err := os.ReadDir(filepath.Join(root, tiesDir))
	if errors.Is(err, fs.ErrNotExist) {
		return false
	}
	return err != nil || slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return filepath.Ext(e.Name()) == storedExt })
}

// Close gives back what the store holds open.
func (s *FileStore) Close() error { return errors.Join(s.dir.Close(), s.root.Close()) }

// Save implements [Store]. A tie that has not changed costs no system call, another
// one is there whole or not at all.
func (s *FileStore) Save(t tie.Tie) error {
	id := t.Launcher.Container.ID
	if !containerID.MatchString(id) {
		return fmt.Errorf("save the tie of container %q: no valid ID", id)
	}
	data, err := json.Marshal(stored{s.boot, t})
	if err != nil || s.last[id] == string(data) {
		return err
	}
	if err := s.writeFile(id, data); err != nil {
		return fmt.Errorf("save the tie of container %s: %w", id, err)
	}
	s.last[id] = string(data)
	return nil
}

// writeFile has the directory locked together with other writers, so that nobody who
// loads takes what is being written for a leftover.
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
	if err := ignoringEINTR(func() error { return unix.Flock(int(s.dir.Fd()), how) }); err != nil {
		return fmt.Errorf("lock the directory: %w", err)
	}
	return nil
}

func (s *FileStore) unlock() { _ = unix.Flock(int(s.dir.Fd()), unix.LOCK_UN) }

func ignoringEINTR(call func() error) error {
	for {
		if err := call(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// Delete implements [Store].
func (s *FileStore) Delete(id string) error {
	delete(s.last, id)
	if !containerID.MatchString(id) {
		return nil
	}
	if err := ignoreNotExist(s.root.Remove(id + storedExt)); err != nil {
		return fmt.Errorf("delete the tie of container %s: %w", id, err)
	}
	return nil
}

// Load implements [Store]. What cannot be read is left out, and named in the error.
// What a crash has left half written is deleted.
func (s *FileStore) Load() (ties []tie.Tie, err error) {
	entries, err := fs.ReadDir(s.root.FS(), ".")
	if err != nil {
		return nil, fmt.Errorf("load the ties: %w", err)
	}
	errs := []error{s.removeUnfinished(entries)}
	for _, e := range entries {
		if id, ok := strings.CutSuffix(e.Name(), storedExt); ok {
			t, here, err := s.load(id)
			if err != nil {
				errs = append(errs, fmt.Errorf("load the tie of container %s: %w", id, err))
			} else if here {
				ties = append(ties, t)
			}
		}
	}
	return ties, errors.Join(errs...)
}

// removeUnfinished deletes what was left half written, unless somebody is writing just now.
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

// ignoreNotExist leaves out the error that says that there is no such file.
func ignoreNotExist(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// load reads one tie; here is false for one of another boot, which is deleted.
func (s *FileStore) load(id string) (t tie.Tie, here bool, err error) {
	info, err := s.root.Lstat(id + storedExt)
	if err != nil {
		return t, false, err
	}
	if info.Size() > maxStored || !info.Mode().IsRegular() {
		return t, false, fmt.Errorf("no file of at most %d bytes", maxStored)
	}
	data, err := s.root.ReadFile(id + storedExt)
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
		return t, false, fmt.Errorf("it is that of container %q", t.Launcher.Container.ID)
	}
	return t, true, nil
}

// decodeStored reads the content of a file.
func decodeStored(data []byte) (t tie.Tie, boot string, err error) {
	var kept stored
	if err := json.Unmarshal(data, &kept); err != nil {
		return t, "", err
	}
	if kept.Boot == "" {
		return t, "", errors.New("it does not say of which boot it is")
	}
	return kept.Tie, kept.Boot, nil
}
