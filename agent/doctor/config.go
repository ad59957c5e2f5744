package doctor

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"
)

const (
	defaultConfig = "/etc/containerd/config.toml"
	nriPlugin     = "io.containerd.nri.v1.nri"
	maxImports    = 100
)

// config is what the configuration of containerd says of NRI. Pointers are nil where
// it says nothing, and the default holds.
type config struct {
	files           []string // that were read, in their order
	disabledPlugins []string
	nri             nriTable
}

// nriTable is the table of the plugin io.containerd.nri.v1.nri (internal/nri/config.go
// of containerd).
type nriTable struct {
	Disable             *bool   `toml:"disable"`
	SocketPath          *string `toml:"socket_path"`
	PluginPath          *string `toml:"plugin_path"`
	PluginConfigPath    *string `toml:"plugin_config_path"`
	RegistrationTimeout *string `toml:"plugin_registration_timeout"`
	RequestTimeout      *string `toml:"plugin_request_timeout"`
	DisableConnections  *bool   `toml:"disable_connections"`
	Validator           struct {
		Enable          *bool    `toml:"enable"`
		RequiredPlugins []string `toml:"required_plugins"`
	} `toml:"default_validator"`
}

// configFile is the part of a file that is looked at.
type configFile struct {
	Imports         []string `toml:"imports"`
	DisabledPlugins []string `toml:"disabled_plugins"`
	Plugins         struct {
		NRI nriTable `toml:"io.containerd.nri.v1.nri"`
	} `toml:"plugins"`
}

// configPath is the file that the running containerd was started with.
func (s *survey) configPath() string {
	if s.Config != "" || s.runtime.PID == 0 {
		return cmp.Or(s.Config, defaultConfig)
	}
	return cmp.Or(s.commandFlag(s.runtime.PID, "--config", "-c"), defaultConfig)
}

// loadConfig reads a configuration and what it imports, as containerd does: files in
// their order, the later value holds (cmd/containerd/server/config/config.go). A file
// that is not there is fs.ErrNotExist.
func loadConfig(root fs.FS, file string) (c config, err error) {
	pending := []string{file}
	for len(pending) > 0 && len(c.files) < maxImports {
		file, pending = pending[0], pending[1:]
		if slices.Contains(c.files, file) {
			continue
		}
		imports, err := c.add(root, file)
		if err != nil {
			return c, err
		}
		pending = append(pending, imports...)
	}
	return c, nil
}

// add reads a file into c, and returns what it imports.
func (c *config) add(root fs.FS, file string) (imports []string, err error) {
	content, err := fs.ReadFile(root, inside(file))
	if err != nil {
		return nil, fmt.Errorf("read containerd's configuration %s: %w", file, cause(err))
	}
	var parsed configFile
	parsed.Plugins.NRI = c.nri // what the file does not say stays
	if err := toml.Unmarshal(content, &parsed); err != nil {
		return nil, fmt.Errorf("read containerd's configuration %s: %w", file, err)
	}
	c.files = append(c.files, file)
	c.nri = parsed.Plugins.NRI
	c.disabledPlugins = append(c.disabledPlugins, parsed.DisabledPlugins...)
	return resolve(root, file, parsed.Imports)
}

// cause leaves out the path, which an fs.FS has without its slash.
func cause(err error) error {
	if wrong, ok := errors.AsType[*fs.PathError](err); ok {
		return wrong.Err
	}
	return err
}

func resolve(root fs.FS, parent string, imports []string) (files []string, err error) {
	for _, pattern := range imports {
		if !path.IsAbs(pattern) {
			pattern = path.Join(path.Dir(parent), pattern)
		}
		if !strings.Contains(pattern, "*") {
			files = append(files, path.Clean(pattern))
			continue
		}
		found, err := fs.Glob(root, inside(path.Clean(pattern)))
		if err != nil {
			return nil, fmt.Errorf("imports of containerd's configuration %s: %q: %w", parent, pattern, err)
		}
		for _, file := range found {
			files = append(files, "/"+file)
		}
	}
	return files, nil
}

// absent reports whether there is no configuration at all, so that containerd runs
// with its defaults and imports nothing.
func (s *survey) absent() bool { return errors.Is(s.configErr, fs.ErrNotExist) }

// configKnown reports whether what containerd is configured with is known.
func (s *survey) configKnown() bool { return s.configErr == nil || s.absent() }

func (s *survey) socketPath() string { return value(s.config.nri.SocketPath, "/var/run/nri/nri.sock") }

// value returns what p points to, or the default.
func value[T any](p *T, otherwise T) T {
	if p == nil {
		return otherwise
	}
	return *p
}
