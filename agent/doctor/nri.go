package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/version"

	"github.com/mooring-vm/mooring/api/agentapi"
)

const enableNRI = "set `disable = false` in [plugins.'" + nriPlugin + "'] of containerd's configuration, and restart containerd"

// nri looks whether containerd lets plugins connect.
func nri(_ context.Context, s *survey) finding {
	connected := s.agentErr == nil && s.agent.NRI.State == agentapi.NRISynchronized
	if s.configKnown() && s.nriDisabled() {
		return finding{Problem, "switched off by " + s.configFiles(), "containerd asks no plugin: no launcher gets anything", enableNRI}
	}
	if s.configKnown() && value(s.config.nri.DisableConnections, false) {
		return finding{Problem, "disable_connections = true in " + s.configFiles(), "the agent cannot connect", "set `disable_connections = false`, and restart containerd"}
	}
	if connected {
		return finding{OK, "the agent is connected" + s.nriText(), "containerd asks the agent", ""}
	}
	return s.nriSocket()
}

func (s *survey) nriSocket() finding {
	socket := s.socketPath()
	info, err := fs.Stat(s.Root, inside(socket))
	switch {
	case errors.Is(err, fs.ErrPermission):
		return finding{Unknown, err.Error(), "only root may look at the socket", askAsRoot}
	case err != nil:
		return finding{Problem, "no socket at " + socket, "containerd does not run, or has NRI switched off", enableNRI}
	case info.Mode().Type() != fs.ModeSocket:
		return finding{Problem, socket + " is no socket", "the agent cannot connect", "remove it, and restart containerd"}
	case socket != "/var/run/nri/nri.sock":
		return finding{Note, "on, at " + socket + s.nriText(), "the agent looks elsewhere by default", "start the agent with --nri-socket=" + socket}
	case !s.configKnown():
		return finding{OK, "on, at " + socket + s.nriText(), "plugins can connect; the configuration was not looked at: " + s.configErr.Error(), ""}
	}
	return finding{OK, "on, at " + socket + s.nriText(), "plugins can connect", ""}
}

// nriDisabled reports whether the configuration, or the default of this version,
// switches NRI off. It is on by default since containerd 2.0.
func (s *survey) nriDisabled() bool {
	if slices.Contains(s.config.disabledPlugins, nriPlugin) {
		return true
	}
	v, ok := s.containerd()
	old := ok && !v.AtLeast(version.MustParseGeneric("2.0"))
	return value(s.config.nri.Disable, old)
}

func (s *survey) configFiles() string {
	if s.absent() {
		return "default: there is no " + s.configPath()
	}
	return fmt.Sprintf("%v", s.config.files)
}

func (s *survey) nriText() string {
	v, ok := s.containerd()
	if !ok {
		return ""
	}
	return "; containerd " + s.runtime.Version + " has " + s.nriOf(v).text
}

// The defaults of NRI (pkg/api/timeouts.go), and what is unusual.
const (
	registrationTimeout = 5 * time.Second
	requestTimeout      = 2 * time.Second
	shortTimeout        = 500 * time.Millisecond
	longTimeout         = 30 * time.Second
)

// nriTimeouts looks at how long containerd waits for plugins.
func nriTimeouts(_ context.Context, s *survey) finding {
	if !s.configKnown() {
		return finding{Unknown, s.configErr.Error(), "how long containerd waits for plugins is not known", askAsRoot}
	}
	registration, err1 := duration(s.config.nri.RegistrationTimeout, registrationTimeout)
	request, err2 := duration(s.config.nri.RequestTimeout, requestTimeout)
	if err := errors.Join(err1, err2); err != nil {
		return finding{Problem, err.Error(), "containerd does not start with this configuration", "correct it: a duration such as 2s"}
	}
	found := fmt.Sprintf("registration %s, request %s", registration, request)
	switch {
	case request < shortTimeout || registration < shortTimeout:
		return finding{Note, found, "a busy node may drop the agent for one slow answer", "set plugin_request_timeout to 2s or more"}
	case request > longTimeout:
		return finding{Note, found, "a plugin that hangs holds up every container of the node for that long, once", "set plugin_request_timeout to 2s"}
	}
	return finding{OK, found, "a plugin that does not answer for so long is dropped, and connects again", ""}
}

func duration(text *string, otherwise time.Duration) (time.Duration, error) {
	if text == nil {
		return otherwise, nil
	}
	return time.ParseDuration(*text)
}
