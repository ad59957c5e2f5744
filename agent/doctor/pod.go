package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/containerd/containerd/v2/cmd/containerd/server/config"
	"github.com/containerd/containerd/v2/version"
	"github.com/pelletier/go-toml/v2"
)

// errHidden is the error of facts in the node's network namespace.
var errHidden = errors.New("the agent's pod does not see the clients of the node's sockets")

// seeFromPod changes the sources of a machine that the agent's pod examines.
func (m *Machine) seeFromPod(host hostFS) {
	m.InPod = true
	m.AgentRoot = os.DirFS("/")
	m.LoadConfig = host.loadConfig
	m.Peers = func(string) ([]Process, error) { return nil, errHidden }
}

// loadConfig reads containerd's configuration and its imports. containerd's own code would look for
// absolute imports in this pod. So each file goes to containerd's code without its imports.
func (h hostFS) loadConfig(ctx context.Context, file string) (*config.Config, error) {
	c := &config.Config{Version: version.ConfigVersion}
	var imports []string
	loaded := map[string]bool{}
	for pending := []string{file}; len(pending) > 0; pending = pending[1:] {
		if loaded[pending[0]] {
			continue
		}
		loaded[pending[0]] = true
		patterns, err := h.loadFile(ctx, pending[0], c)
		if err != nil {
			return nil, fmt.Errorf("read containerd's configuration %s: %w", pending[0], err)
		}
		imports = append(imports, patterns...)
		more, err := h.importsOf(pending[0], patterns)
		if err != nil {
			return nil, fmt.Errorf("read containerd's configuration %s: %w", pending[0], err)
		}
		pending = append(pending, more...)
	}
	c.Imports = imports
	return c, nil
}

// loadFile merges one file into c, and returns the patterns of its imports.
func (h hostFS) loadFile(ctx context.Context, file string, c *config.Config) ([]string, error) {
	text, err := h.ReadFile(file)
	if err != nil {
		return nil, withoutPath(err)
	}
	var imports struct {
		Imports []string `toml:"imports"`
	}
	var tables map[string]any
	err = errors.Join(toml.Unmarshal(text, &imports), toml.Unmarshal(text, &tables))
	if err != nil {
		return nil, err
	}
	delete(tables, "imports")
	if text, err = toml.Marshal(tables); err != nil {
		return nil, err
	}
	copied, remove, err := memoryFile(text)
	if err != nil {
		return nil, err
	}
	defer remove()
	return imports.Imports, config.LoadConfig(ctx, copied, c)
}

// importsOf returns the paths on the node of the imports of a file.
func (h hostFS) importsOf(file string, patterns []string) (paths []string, err error) {
	for _, pattern := range patterns {
		if !path.IsAbs(pattern) {
			pattern = path.Join(path.Dir(file), pattern)
		}
		if !strings.Contains(pattern, "*") {
			paths = append(paths, pattern)
			continue
		}
		found, err := fs.Glob(h, fsPath(path.Clean(pattern)))
		if err != nil {
			return nil, err
		}
		for _, name := range found {
			paths = append(paths, "/"+name)
		}
	}
	return paths, nil
}

// memoryFile returns a file with this text, and a function that removes it. The agent's root file
// system is read-only; /dev/shm is writable in every container.
func memoryFile(text []byte) (name string, remove func(), err error) {
	dir, err := os.MkdirTemp("/dev/shm", "mooring-doctor-")
	if err != nil {
		return "", nil, err
	}
	remove = func() { _ = os.RemoveAll(dir) }
	name = filepath.Join(dir, "config.toml")
	if err := os.WriteFile(name, text, 0o600); err != nil {
		remove()
		return "", nil, err
	}
	return name, remove, nil
}
