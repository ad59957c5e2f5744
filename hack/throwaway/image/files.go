package image

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strconv"

	"github.com/mooring-vm/mooring/hack/throwaway/cache"
)

// File is a file of a node. With Link it is a symbolic link. With Absent it is removed from the
// root file system.
type File struct {
	Content []byte
	Mode    fs.FileMode
	Link    string
	Absent  bool
}

// Files maps paths below the root, without a leading slash, to files.
type Files map[string]File

// Sum is a hash of the files.
func (f Files) Sum() string {
	var parts []string
	for _, path := range f.paths() {
		parts = append(parts, path, f[path].Mode.String(), f[path].Link,
			strconv.FormatBool(f[path].Absent), string(f[path].Content))
	}
	return string(cache.KeyOf(parts...))
}

func (f Files) paths() []string {
	paths := make([]string, 0, len(f))
	for path := range f {
		paths = append(paths, path)
	}
	sort.Strings(paths)
	return paths
}

// Place writes the files into a tree. It removes each file there before, so a hard link keeps its
// other name's content.
func (f Files) Place(tree string) error {
	for _, path := range f.paths() {
		if err := f[path].place(filepath.Join(tree, path)); err != nil {
			return fmt.Errorf("placing /%s: %w", path, err)
		}
	}
	return nil
}

func (f File) place(to string) error {
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	if err := os.Remove(to); err != nil && !os.IsNotExist(err) {
		return err
	}
	if f.Absent {
		return nil
	}
	if f.Link != "" {
		return os.Symlink(f.Link, to)
	}
	return os.WriteFile(to, f.Content, f.Mode)
}
