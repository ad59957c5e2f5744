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
	Get(uid string) (Record, bool)
	Put(uid string, record Record) error
	Delete(uid string) error

	// UIDs returns the pods with a record, in no order.
	UIDs() []string

	// Requirements returns the memory requirements of the VM processes of all pods.
	Requirements() map[host.Process]uint64
}

const (
	storeDir = "wanted"
	newFile  = ".new"
)

// FileStore is a [Store] with one file for each pod, in a directory for root alone. It reads the
// files once, when it opens.
type FileStore struct {
	root *os.Root

	mu      sync.Mutex
	records map[string]Record // by pod UID
}

var _ Store = (*FileStore)(nil)

// OpenFileStore opens the store below root, such as /run/mooring, and makes its directory. An
// unreadable file is an error. OpenFileStore deletes a file that a crash has torn.
func OpenFileStore(root string) (*FileStore, error) {
	dir := filepath.Join(root, storeDir)
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("open the store of pods' requests: %w", err)
	}
	r, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("open the store of pods' requests: %w", err)
	}
	s := &FileStore{root: r, records: map[string]Record{}}
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
		data, err := s.root.ReadFile(e.Name())
		if err != nil {
			return err
		}
		var record Record
		if json.Unmarshal(data, &record) != nil { // torn by a crash
			if err := s.root.Remove(e.Name()); err != nil {
				return err
			}
			continue
		}
		s.records[e.Name()] = record
	}
	delete(s.records, newFile)
	return nil
}

// Close closes the store's directory.
func (s *FileStore) Close() error { return s.root.Close() }

// Get implements [Store].
func (s *FileStore) Get(uid string) (Record, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	record, ok := s.records[uid]
	return record, ok
}

// Put implements [Store]. The write is atomic.
func (s *FileStore) Put(uid string, record Record) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	data, err := json.Marshal(record)
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
	return slices.Collect(maps.Keys(s.records))
}

// Requirements implements [Store].
func (s *FileStore) Requirements() map[host.Process]uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	needs := map[host.Process]uint64{}
	for _, record := range s.records {
		if n := record.Requirement; n != nil {
			needs[host.ProcessAt(n.PID, n.StartTime)] = n.Bytes
		}
	}
	return needs
}

// Delete implements [Store].
func (s *FileStore) Delete(uid string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.records[uid]; !ok {
		return nil
	}
	delete(s.records, uid)
	return s.root.Remove(uid)
}
