package lifecycle

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

const (
	tiesDir   = "ties"
	storedExt = ".json"

	// maxStored bounds what is read of one file: a launcher has few VMs.
	maxStored = 1 << 20
)

// containerID is what runtimes call containers. It becomes the name of a file.
var containerID = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,127}$`)

// FileStore is a [Store] of one file for each tie, in a directory that only root may
// enter. It belongs on a tmpfs; should it outlive the node's boot all the same, what
// it has is of another boot and is not loaded.
//
// Save and Delete must not be called at once; Load may be called by another process.
type FileStore struct {
	root *os.Root
	boot string
	last map[string]string // what each file has, by container ID
}

var _ Store = (*FileStore)(nil)

// stored is the content of a file.
type stored struct {
	Boot string `json:"boot"`
	Tie  Tie    `json:"tie"`
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
	return &FileStore{root: r, boot: strings.TrimSpace(string(boot)), last: map[string]string{}}, nil
}

// Close gives back what the store holds open.
func (s *FileStore) Close() error { return s.root.Close() }

// Save implements [Store]. A tie that has not changed costs no system call, another
// one is there whole or not at all.
func (s *FileStore) Save(t Tie) error {
	id := t.Launcher.Container.ID
	if !containerID.MatchString(id) {
		return fmt.Errorf("save the tie of container %q: no valid ID", id)
	}
	data, err := json.Marshal(stored{s.boot, t})
	if err != nil || s.last[id] == string(data) {
		return err
	}
	if err := s.replace(id, data); err != nil {
		return fmt.Errorf("save the tie of container %s: %w", id, err)
	}
	s.last[id] = string(data)
	return nil
}

func (s *FileStore) replace(id string, data []byte) error {
	if err := s.root.WriteFile(id+".new", data, 0o600); err != nil {
		return err
	}
	return s.root.Rename(id+".new", id+storedExt)
}

// Delete implements [Store].
func (s *FileStore) Delete(id string) error {
	delete(s.last, id)
	if !containerID.MatchString(id) {
		return nil
	}
	if err := s.root.Remove(id + storedExt); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("delete the tie of container %s: %w", id, err)
	}
	return nil
}

// Load implements [Store]. What cannot be read is left out, and named in the error.
func (s *FileStore) Load() (ties []Tie, err error) {
	entries, err := fs.ReadDir(s.root.FS(), ".")
	if err != nil {
		return nil, fmt.Errorf("load the ties: %w", err)
	}
	var errs []error
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

// load reads one tie; here is false for one of another boot, which is deleted.
func (s *FileStore) load(id string) (t Tie, here bool, err error) {
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
func decodeStored(data []byte) (t Tie, boot string, err error) {
	var kept stored
	if err := json.Unmarshal(data, &kept); err != nil {
		return t, "", err
	}
	if kept.Boot == "" {
		return t, "", errors.New("it does not say of which boot it is")
	}
	return kept.Tie, kept.Boot, nil
}
