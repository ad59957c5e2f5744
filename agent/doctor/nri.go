package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"github.com/containerd/nri/pkg/api"
	"k8s.io/apimachinery/pkg/util/version"

	"github.com/mooring-vm/mooring/api/agentapi"
)

const enableNRI = "set `disable = false` in [plugins.'" + nriPlugin +
	"'] of containerd's configuration, and restart containerd"

// nri checks whether plugins can connect to containerd.
func nri(_ context.Context, s *survey) finding {
	connected := s.agentErr == nil && s.agent.NRI.State == agentapi.NRISynchronized
	if s.configKnown() && s.nriDisabled() {
		return finding{
			Problem, "switched off by " + s.configText(),
			"containerd calls no plugin: no launcher gets its settings", enableNRI,
		}
	}
	if s.configKnown() && s.config.nri.DisableConnections {
		return finding{
			Problem, "disable_connections = true in " + s.configText(), "the agent cannot connect",
			"set `disable_connections = false`, and restart containerd",
		}
	}
	if connected {
		return finding{OK, "the agent is connected" + s.nriText(), "containerd calls the agent", ""}
	}
	return s.nriSocket()
}

func (s *survey) nriSocket() finding {
	socket := s.config.nri.SocketPath
	info, err := fs.Stat(s.Root, fsPath(socket))
	switch {
	case errors.Is(err, fs.ErrPermission):
		return finding{Unknown, err.Error(), "only root can inspect the socket", asRoot}
	case err != nil:
		return finding{
			Problem,
			"no socket at " + socket,
			"containerd does not run, or has NRI switched off",
			enableNRI,
		}
	case info.Mode().Type() != fs.ModeSocket:
		return finding{
			Problem, socket + " is not a socket", "the agent cannot connect",
			"remove it, and restart containerd",
		}
	case socket != api.DefaultSocketPath:
		return finding{
			Note, "on, at " + socket + s.nriText(), "the agent uses another socket by default",
			"start the agent with --nri-socket=" + socket,
		}
	case !s.configKnown():
		return finding{
			OK, "on, at " + socket + s.nriText(),
			"plugins can connect; the configuration was not checked: " + s.configErr.Error(), "",
		}
	}
	return finding{OK, "on, at " + socket + s.nriText(), "plugins can connect", ""}
}

// nriDisabled reports whether the configuration, or the default of this version, switches NRI off.
// It is on by default since containerd 2.0.
func (s *survey) nriDisabled() bool {
	if slices.Contains(s.config.disabledPlugins, nriPlugin) {
		return true
	}
	if s.config.nri.Disable != nil {
		return *s.config.nri.Disable
	}
	v, ok := s.containerd()
	return ok && !v.AtLeast(version.MustParseGeneric("2.0"))
}

func (s *survey) nriText() string {
	v, ok := s.containerd()
	if !ok {
		return ""
	}
	return "; containerd " + s.runtime.Version + " has " + s.nriOf(v).text
}

// Timeouts below or above these limits get a note.
const (
	shortTimeout = 500 * time.Millisecond
	longTimeout  = 30 * time.Second
)

// nriTimeouts checks containerd's timeouts for answers of plugins.
func nriTimeouts(_ context.Context, s *survey) finding {
	if !s.configKnown() {
		return finding{
			Unknown,
			s.configErr.Error(),
			"the time that containerd waits for plugins is not known",
			asRoot,
		}
	}
	registration, err1 := time.ParseDuration(s.config.nri.RegistrationTimeout)
	request, err2 := time.ParseDuration(s.config.nri.RequestTimeout)
	if err := errors.Join(err1, err2); err != nil {
		return finding{
			Problem, err.Error(), "containerd does not start with this configuration",
			"correct it: a duration such as 2s",
		}
	}
	found := fmt.Sprintf("registration %s, request %s", registration, request)
	switch {
	case request < shortTimeout || registration < shortTimeout:
		return finding{
			Note, found, "a busy node may drop the agent after one slow answer",
			"set plugin_request_timeout to 2s or more",
		}
	case request > longTimeout:
		return finding{
			Note, found,
			"a plugin that hangs holds up every container of the node for that long, once",
			"set plugin_request_timeout to 2s",
		}
	}
	return finding{
		OK,
		found,
		"containerd drops a plugin without an answer in this time; the plugin connects again",
		"",
	}
}
