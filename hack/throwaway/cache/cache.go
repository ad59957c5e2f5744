// Package cache keeps built artefacts in directories named after a hash of their inputs. A changed
// set of inputs therefore never gets an old result.
package cache

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"
)

// EnvDir names the environment variable with the directory of the cache.
const EnvDir = "MOORING_CACHE"

// Store is a directory of cached entries. Several processes and goroutines may use it at once.
type Store struct {
	dir string
	log *slog.Logger
}

// Default returns the store in $MOORING_CACHE, or else in ~/.cache/mooring.
func Default() (*Store, error) {
	if dir := os.Getenv(EnvDir); dir != "" {
		return New(dir)
	}
	base, err := os.UserCacheDir()
	if err != nil {
		return nil, fmt.Errorf("finding the user's cache directory: %w", err)
	}
	return New(filepath.Join(base, "mooring"))
}

// New returns the store in dir. dir need not exist yet.
func New(dir string) (*Store, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("resolving cache directory %q: %w", dir, err)
	}
	return &Store{dir: abs, log: slog.New(slog.DiscardHandler)}, nil
}

// LogTo returns a copy of the store with a logger. The store logs each wait for another build.
func (s *Store) LogTo(log *slog.Logger) *Store { return &Store{dir: s.dir, log: log} }

// Dir returns a path in the cache directory, such as the directory of running nodes. The directory
// may not exist yet.
func (s *Store) Dir(elem ...string) string {
	return filepath.Join(append([]string{s.dir}, elem...)...)
}

// Key is the content address of an entry.
type Key string

// KeyOf hashes all inputs of an entry. It prefixes each with its length, so ("ab", "c") and ("a",
// "bc") differ.
func KeyOf(parts ...string) Key {
	h := sha256.New()
	for _, p := range parts {
		fmt.Fprintf(h, "%d:%s", len(p), p)
	}
	return Key(hex.EncodeToString(h.Sum(nil))[:24])
}

// Entry is a built directory. It stays in place until Close.
type Entry struct {
	// Dir is the output directory of the build function.
	Dir  string
	lock *lock
}

// Close allows other processes to rebuild or remove the entry.
func (e *Entry) Close() error { return e.lock.release() }

// CloseAll closes all entries except nil ones.
func CloseAll(entries ...*Entry) error {
	var errs []error
	for _, e := range entries {
		if e != nil {
			errs = append(errs, e.Close())
		}
	}
	return errors.Join(errs...)
}

// Get returns the entry of this name and key. If the entry is missing, or its files have changed
// (see fingerprint), Get calls build with an empty directory. If several processes call Get, the
// first one builds, and each further one waits for it, at most until ctx ends. Get removes the
// directory of a failed build.
func (s *Store) Get(
	ctx context.Context, name string, key Key, build func(ctx context.Context, dir string) error,
) (*Entry, error) {
	parent := filepath.Join(s.dir, name)
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return nil, fmt.Errorf("creating the cache directory: %w", err)
	}
	dir := filepath.Join(parent, string(key))
	for {
		l, err := s.lockShared(ctx, dir+".lock")
		if err != nil {
			return nil, fmt.Errorf("locking cache entry %s: %w", name, err)
		}
		if intact(dir) {
			now := time.Now() // for Prune
			return &Entry{Dir: dir, lock: l}, os.Chtimes(sumFile(dir), now, now)
		}
		if err := l.release(); err != nil {
			return nil, err
		}
		if err := s.rebuild(ctx, dir, build); err != nil {
			return nil, fmt.Errorf("building cache entry %s: %w", name, err)
		}
	}
}

// rebuild fills dir under the exclusive lock, unless another caller has filled it in the meantime.
func (s *Store) rebuild(
	ctx context.Context, dir string, build func(context.Context, string) error,
) error {
	l, err := s.lockExclusive(ctx, dir+".lock")
	if err != nil {
		return err
	}
	defer l.releaseExclusive()
	if intact(dir) {
		return nil
	}
	if err := errors.Join(removeEntry(dir), removeAttempts(dir)); err != nil {
		return err
	}
	tmp, err := os.MkdirTemp(filepath.Dir(dir), filepath.Base(dir)+attemptSuffix)
	if err != nil {
		return err
	}
	if err := os.Chmod(tmp, 0o755); err != nil {
		return err
	}
	if err := build(ctx, tmp); err != nil {
		return errors.Join(err, remove(tmp))
	}
	return publish(tmp, dir)
}

func publish(tmp, dir string) error {
	sum, err := fingerprint(tmp)
	if err != nil {
		return err
	}
	if err := os.Rename(tmp, dir); err != nil {
		return err
	}
	return os.WriteFile(sumFile(dir), []byte(sum), 0o644)
}
