package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"strings"

	"github.com/mooring-vm/mooring/internal/plaintext"
)

// pluginName matches the file name of a pre-installed NRI plugin: index and name.
var pluginName = regexp.MustCompile(`^[0-9]{2}-.+$`)

const agentProcess = "mooring-agent"

// neighbours lists the other NRI plugins. containerd starts some from a directory. Others
// connect to the NRI socket: the socket's peers show their processes.
func neighbours(_ context.Context, s *survey) finding {
	const mend = "make sure that none of them sets RLIMIT_MEMLOCK or the same cgroup files for " +
		"launchers: " +
		"the runtime refuses a container if two plugins set the same value"
	installed, installedErr := s.preinstalled()
	connected, connectedErr := s.connected()
	var found []string
	if len(installed) > 0 {
		found = append(found, "started by containerd: "+strings.Join(installed, ", "))
	}
	if len(connected) > 0 {
		found = append(found, "connected: "+strings.Join(connected, ", "))
	}
	err := errors.Join(installedErr, connectedErr)
	switch {
	case len(found) > 0 && err != nil:
		return finding{
			Note, strings.Join(found, "; "),
			"other plugins may change the same containers; there may be more: " +
				plaintext.OneLine(err.Error()), mend,
		}
	case len(found) > 0:
		return finding{
			Note,
			strings.Join(found, "; "),
			"other plugins may change the same containers",
			mend,
		}
	case err != nil:
		return finding{
			Unknown,
			plaintext.OneLine(err.Error()),
			"it is not known whether other NRI plugins run",
			asRoot,
		}
	}
	return finding{
		OK,
		"none found",
		"plugins in pods with a network namespace of their own are not visible",
		"",
	}
}

// preinstalled lists the plugins in containerd's plugin directory.
func (s *survey) preinstalled() (names []string, err error) {
	entries, err := fs.ReadDir(s.Root, fsPath(s.config.nri.PluginPath))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, e := range entries {
		if pluginName.MatchString(e.Name()) && !e.IsDir() {
			names = append(names, e.Name()+s.pluginConfig(e.Name()))
		}
	}
	return names, nil
}

// pluginConfig names the configuration of a plugin, NN-name.conf or name.conf, in
// parentheses. It returns "" for none.
func (s *survey) pluginConfig(name string) string {
	for _, file := range []string{name + ".conf", name[3:] + ".conf"} {
		file = path.Join(s.config.nri.PluginConfigPath, file)
		if s.exists(file) {
			return " (" + file + ")"
		}
	}
	return ""
}

// connected lists the processes on the NRI socket, except the agent.
func (s *survey) connected() (names []string, err error) {
	if s.Peers == nil {
		return nil, errNotChecked
	}
	peers, err := s.Peers(s.config.nri.SocketPath)
	for _, p := range peers {
		if p.Name != agentProcess && p.PID != s.agent.PID {
			names = append(names, fmt.Sprintf("%s (pid %d)", p.Name, p.PID))
		}
	}
	return names, err
}
