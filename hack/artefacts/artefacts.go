// Package artefacts keeps logs of failures.
package artefacts

import (
	"cmp"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/mooring-vm/mooring/hack/throwaway/cache"
)

// Env names the environment variable with the directory of these logs. The default is
// ~/.cache/mooring/artefacts.
const Env = "MOORING_ARTEFACTS"

// kept is the number of directories after Prune.
const kept = 10

// New makes a directory for the logs of a test or node called name.
func New(name string) (string, error) {
	base := os.Getenv(Env)
	if base == "" {
		store, err := cache.Default()
		if err != nil {
			return "", err
		}
		base = store.Dir("artefacts")
	}
	if err := os.MkdirAll(base, 0o755); err != nil {
		return "", err
	}
	safe := strings.NewReplacer("/", "_", " ", "_").Replace(name)
	return os.MkdirTemp(base, time.Now().Format("20060102-150405-")+safe+"-")
}

// Prune removes old directories from the cache. Call it before a run: a run with many failures must
// keep all its logs.
func Prune(store *cache.Store) error {
	dirs, err := filepath.Glob(store.Dir("artefacts", "20*")) // their names begin with the time
	if err != nil {
		return err
	}
	slices.SortFunc(dirs, func(a, b string) int { return cmp.Compare(b, a) })
	var errs []error
	for _, dir := range dirs[min(kept, len(dirs)):] {
		errs = append(errs, os.RemoveAll(dir))
	}
	return errors.Join(errs...)
}

// Copy copies a file into a directory.
func Copy(file, dir string) error {
	in, err := os.Open(file)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.Create(filepath.Join(dir, filepath.Base(file)))
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}
