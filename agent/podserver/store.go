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

// Store keeps what the agent was asked for pods. The methods may be called from several
// goroutines at once.
type Store interface {
	Get(uid string) (Record, bool)
	Put(uid string, asked Record) error
	Delete(uid string) error

	// UIDs returns the pods of which anything is stored, in no order.
	UIDs() []string

	// Needs returns what VM processes of all pods need.
	Requirements() map[host.Process]uint64
}

const (
	storeDir = "wanted"
	newFile  = ".new"
)

// FileStore is a [Store] of one file for each pod, in a directory that only root may
// enter. It is read once, when it is opened.
type FileStore struct {
	root *os.Root

	mu      sync.Mutex
	records map[string]Record // by pod UID
}

var _ Store = (*FileStore)(nil)

// OpenFileStore opens the store below root, such as /run/mooring, and makes it. What
// cannot be read there is an error, and left out.
func OpenFileStore(root string) (*FileStore, error) {
	dir := filepath.Join(root, storeDir)
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("open the store of what is wanted: %w", err)
	}
	r, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("open the store of what is wanted: %w", err)
	}
	s := &FileStore{root: r, records: map[string]Record{}}
	if err := s.load(); err != nil {
		return nil, errors.Join(fmt.Errorf("open the store of what is wanted: %w", err), r.Close())
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
		var asked Record
		if json.Unmarshal(data, &asked) != nil { // half written before a crash
			if err := s.root.Remove(e.Name()); err != nil {
				return err
			}
			continue
		}
		s.records[e.Name()] = asked
	}
	delete(s.records, newFile)
	return nil
}

// Close gives back what the store holds open.
func (s *FileStore) Close() error { return s.root.Close() }

// Get implements [Store].
func (s *FileStore) Get(uid string) (Record, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	asked, ok := s.records[uid]
	return asked, ok
}

// Put implements [Store]. What is stored is there whole, or as before.
func (s *FileStore) Put(uid string, asked Record) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	data, err := json.Marshal(asked)
	if err == nil {
		err = s.root.WriteFile(newFile, data, 0o600)
	}
	if err == nil {
		err = s.root.Rename(newFile, uid)
	}
	if err != nil {
		return fmt.Errorf("store what is wanted of pod %s: %w", uid, err)
	}
	s.records[uid] = asked
	return nil
}

// UIDs implements [Store].
func (s *FileStore) UIDs() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Keys(s.records))
}

// Needs implements [Store].
func (s *FileStore) Requirements() map[host.Process]uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	needs := map[host.Process]uint64{}
	for _, asked := range s.records {
		if n := asked.Requirement; n != nil {
			needs[host.Process{PID: n.PID, StartTime: n.StartTime}] = n.Bytes
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
