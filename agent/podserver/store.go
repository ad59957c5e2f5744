package podserver

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/mooring-vm/mooring/lifecycle/host"
)

// Store keeps a record for each pod. Several goroutines may call the methods at once.
type Store interface {
	// Get returns the record of a pod. A pod without a record has an empty one.
	Get(uid string) (Record, error)

	// Put replaces the record of a pod. It keeps an unreadable record and returns its error.
	Put(uid string, record Record) error

	// Delete deletes the record of a pod, readable or not.
	Delete(uid string) error

	// UIDs returns the pods with a record, in no order.
	UIDs() []string

	// Requirements returns the memory requirements of the VM processes of all pods, and the UIDs of
	// pods with an unreadable record.
	Requirements() (known map[host.Process]uint64, unknown []string)
}

const (
	storeDir = "wanted"
	newFile  = ".new"

	// storedVersion is the version of layout and meaning of a file. A new field that an older agent
	// may ignore needs no new version.
	//
	//	0 (agents of v0.1.0): no version, otherwise as 1
	storedVersion = 1
)

// stored is the content of a file.
type stored struct {
	Version int `json:"version"`
	Record
}

// FileStore is a [Store] with one file for each pod, in a directory for root alone. It reads the
// files once, when it opens. It keeps the file of an unreadable record, which another version of
// the agent may have written, until the pod is gone.
type FileStore struct {
	root *os.Root

	mu         sync.Mutex
	records    map[string]Record // by pod UID
	unreadable map[string]error  // by pod UID
}

var _ Store = (*FileStore)(nil)

// OpenFileStore opens the store below root, such as /run/mooring, and makes its directory. See
// [FileStore.Unreadable] for unreadable records.
func OpenFileStore(root string) (*FileStore, error) {
	dir := filepath.Join(root, storeDir)
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("open the store of pods' requests: %w", err)
	}
	r, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("open the store of pods' requests: %w", err)
	}
	s := &FileStore{root: r, records: map[string]Record{}, unreadable: map[string]error{}}
	if err := s.load(); err != nil {
		return nil, errors.Join(fmt.Errorf("open the store of pods' requests: %w", err), r.Close())
	}
	return s, nil
}

func (s *FileStore) load() error {
	entries, err := fs.ReadDir(s.root.FS(), ".")
	if err != nil {
		return err
	}
	for _, e := range entries {
		uid := e.Name()
		if uid == newFile {
			continue
		}
		if record, err := s.read(uid); err == nil {
			s.records[uid] = record
		} else {
			s.unreadable[uid] = fmt.Errorf("the stored requests of pod %s are unreadable: %w; "+
				"install the later version of the agent again, or delete %s and restart the agent",
				uid, err, filepath.Join(s.root.Name(), uid))
		}
	}
	return nil
}

// read reads one file.
func (s *FileStore) read(uid string) (Record, error) {
	data, err := s.root.ReadFile(uid)
	if err != nil {
		return Record{}, err
	}
	var content stored
	if err := json.Unmarshal(data, &content); err != nil {
		return Record{}, err
	}
	if content.Version < 0 || content.Version > storedVersion {
		return Record{}, fmt.Errorf("version %d of the file is unknown: this agent reads 0 to %d",
			content.Version, storedVersion)
	}
	return content.Record, nil
}

// Unreadable returns an error that names all unreadable records, or nil.
func (s *FileStore) Unreadable() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return errors.Join(slices.Collect(maps.Values(s.unreadable))...)
}

// Close closes the store's directory.
func (s *FileStore) Close() error { return s.root.Close() }

// Get implements [Store].
func (s *FileStore) Get(uid string) (Record, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.records[uid], s.unreadable[uid]
}

// Put implements [Store]. The write is atomic.
func (s *FileStore) Put(uid string, record Record) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.unreadable[uid]; err != nil {
		return err
	}
	data, err := json.Marshal(stored{storedVersion, record})
	if err == nil {
		err = s.root.WriteFile(newFile, data, 0o600)
	}
	if err == nil {
		err = s.root.Rename(newFile, uid)
	}
	if err != nil {
		return fmt.Errorf("store the requests of pod %s: %w", uid, err)
	}
	s.records[uid] = record
	return nil
}

// UIDs implements [Store].
func (s *FileStore) UIDs() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.AppendSeq(slices.Collect(maps.Keys(s.records)), maps.Keys(s.unreadable))
}

// Requirements implements [Store].
func (s *FileStore) Requirements() (known map[host.Process]uint64, unknown []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	known = map[host.Process]uint64{}
	for _, record := range s.records {
		if n := record.Requirement; n != nil {
			known[host.ProcessAt(n.PID, n.StartTime)] = n.Bytes
		}
	}
	return known, slices.Collect(maps.Keys(s.unreadable))
}

// Delete implements [Store].
func (s *FileStore) Delete(uid string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, readable := s.records[uid]
	if !readable && s.unreadable[uid] == nil {
		return nil
	}
	delete(s.records, uid)
	delete(s.unreadable, uid)
	return s.root.Remove(uid)
}
