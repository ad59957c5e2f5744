package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"strings"
)

// pluginName is how pre-installed NRI plugins are called: index and name.
var pluginName = regexp.MustCompile(`^[0-9]{2}-.+$`)

const agentProcess = "mooring-agent"

// neighbours looks for other NRI plugins. Those that containerd starts are in a
// folder; of those that connect, the socket tells the process.
func neighbours(_ context.Context, s *survey) finding {
	const mend = "see that none of them sets RLIMIT_MEMLOCK or the same cgroup files for launchers: the runtime refuses a container for which two plugins do"
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
		return finding{Note, strings.Join(found, "; "), "other plugins may change the same containers; there may be more: " + oneLine(err), mend}
	case len(found) > 0:
		return finding{Note, strings.Join(found, "; "), "other plugins may change the same containers", mend}
	case err != nil:
		return finding{Unknown, oneLine(err), "whether other NRI plugins run could not be found out", askAsRoot}
	}
	return finding{OK, "none found", "plugins in pods with a network namespace of their own are not seen", ""}
}

// preinstalled lists the plugins in containerd's folder.
func (s *survey) preinstalled() (names []string, err error) {
	dir := value(s.config.nri.PluginPath, "/opt/nri/plugins")
	entries, err := fs.ReadDir(s.Root, inside(dir))
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

// pluginConfig says whether a plugin has a configuration: NN-name.conf, or name.conf.
func (s *survey) pluginConfig(name string) string {
	dir := value(s.config.nri.PluginConfigPath, "/etc/nri/conf.d")
	for _, file := range []string{name + ".conf", name[3:] + ".conf"} {
		if s.exists(path.Join(dir, file)) {
			return " (" + path.Join(dir, file) + ")"
		}
	}
	return ""
}

// connected lists the processes on NRI's socket but our agent.
func (s *survey) connected() (names []string, err error) {
	if s.Peers == nil {
		return nil, errNotAsked
	}
	peers, err := s.Peers(s.socketPath())
	for _, p := range peers {
		if p.Name != agentProcess && p.PID != s.agent.PID {
			names = append(names, fmt.Sprintf("%s (pid %d)", p.Name, p.PID))
		}
	}
	return names, err
}

func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }
