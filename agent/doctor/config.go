package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/containerd/containerd/v2/cmd/containerd/server/config"
	"github.com/containerd/containerd/v2/version"
	"github.com/containerd/log"
	"github.com/containerd/nri/pkg/api"
	validatorconfig "github.com/containerd/nri/plugins/default-validator"
	"github.com/sirupsen/logrus"
)

const (
	defaultConfig = "/etc/containerd/config.toml"
	nriPlugin     = "io.containerd.nri.v1.nri"

	// criPlugin is the full name of the plugin "cri" of old configurations. containerd
	// expands the short name when it migrates them.
	criPlugin = "io.containerd.grpc.v1.cri"
)

// containerdConfig is the part of containerd's configuration about NRI.
type containerdConfig struct {
	imports         []string // patterns, of all files together
	disabledPlugins []string
	nri             nriTable
}

// nriTable is the table of the plugin io.containerd.nri.v1.nri. containerd keeps its own type
// internal (internal/nri/config.go). A nil pointer stands for the default, which depends on the
// version of containerd.
type nriTable struct {
	Disable             *bool  `toml:"disable"`
	SocketPath          string `toml:"socket_path"`
	PluginPath          string `toml:"plugin_path"`
	PluginConfigPath    string `toml:"plugin_config_path"`
	RegistrationTimeout string `toml:"plugin_registration_timeout"`
	RequestTimeout      string `toml:"plugin_request_timeout"`
	DisableConnections  bool   `toml:"disable_connections"`

	Validator validatorconfig.DefaultValidatorConfig `toml:"default_validator"`
}

// defaultNRITable returns containerd's defaults.
func defaultNRITable() nriTable {
	return nriTable{
		SocketPath:          api.DefaultSocketPath,
		PluginPath:          "/opt/nri/plugins",
		PluginConfigPath:    "/etc/nri/conf.d",
		RegistrationTimeout: api.DefaultPluginRegistrationTimeout.String(),
		RequestTimeout:      api.DefaultPluginRequestTimeout.String(),
	}
}

// loadConfig reads containerd's configuration and its imports, as containerd does. An error for an
// absent file wraps fs.ErrNotExist.
func loadConfig(ctx context.Context, file string) (*config.Config, error) {
	c := &config.Config{Version: version.ConfigVersion} // older files are migrated to this version
	if err := config.LoadConfig(ctx, file, c); err != nil {
		return nil, fmt.Errorf("read containerd's configuration %s: %w", file, err)
	}
	return c, nil
}

// readConfig returns the part of containerd's configuration about NRI.
func (s *survey) readConfig(ctx context.Context) (c containerdConfig, err error) {
	c.nri = defaultNRITable()
	switch {
	case s.runtimeErr == nil && s.runtime.Name != "containerd":
		return c, fmt.Errorf(
			"the runtime is %s: only containerd's configuration can be read",
			s.runtime.Name,
		)
	case s.LoadConfig == nil:
		return c, errNotChecked
	}
	ctx = withoutLog(ctx)
	all, err := s.LoadConfig(ctx, s.configPath())
	if err != nil {
		return c, err
	}
	c.imports, c.disabledPlugins = all.Imports, all.DisabledPlugins
	if _, err := all.Decode(ctx, nriPlugin, &c.nri); err != nil {
		return c, fmt.Errorf(
			"read containerd's configuration %s: plugin %s: %w",
			s.configPath(),
			nriPlugin,
			err,
		)
	}
	return c, nil
}

// withoutLog drops the log of containerd's code, which goes to standard error by default.
func withoutLog(ctx context.Context) context.Context {
	quiet := logrus.New()
	quiet.SetOutput(io.Discard)
	return log.WithLogger(ctx, logrus.NewEntry(quiet))
}

// configPath is the configuration file of the running containerd.
func (s *survey) configPath() string {
	if s.Config != "" || s.runtime.PID == 0 {
		return cmp.Or(s.Config, defaultConfig)
	}
	return cmp.Or(s.commandFlag(s.runtime.PID, "--config", "-c"), defaultConfig)
}

// noConfig reports whether no configuration exists. containerd then runs with its defaults and
// without imports.
func (s *survey) noConfig() bool { return errors.Is(s.configErr, fs.ErrNotExist) }

// configKnown reports whether the checks know containerd's configuration.
func (s *survey) configKnown() bool { return s.configErr == nil || s.noConfig() }

// configText names the configuration in findings.
func (s *survey) configText() string {
	switch {
	case s.noConfig():
		return "default: there is no " + s.configPath()
	case len(s.config.imports) > 0:
		return fmt.Sprintf("%s with imports %v", s.configPath(), s.config.imports)
	}
	return s.configPath()
}
