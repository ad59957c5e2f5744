// Package artefacts keeps the logs of what failed.
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

// Env names the environment variable for the folder that the logs of what failed
// are kept in; ~/.cache/mooring/artefacts by default.
const Env = "MOORING_ARTEFACTS"

// kept is how many folders Prune leaves.
const kept = 10

// New makes a folder for the logs of what is called name.
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

// Prune removes all but the newest folders of those in the cache. To be called
// before a run and never during one, whose failures may be many.
func Prune(store *cache.Store) error {
	dirs, err := filepath.Glob(store.Dir("artefacts", "20*")) // named after their time
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

// Copy copies a file into a folder.
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
