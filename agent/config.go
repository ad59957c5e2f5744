package agent

import (
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/containerd/nri/pkg/api"
	"github.com/spf13/pflag"

	"github.com/mooring-vm/mooring/internal/kubeclient"
	"github.com/mooring-vm/mooring/internal/logflags"
)

const (
	// pluginName is the plugin's name in required-plugins annotations.
	pluginName = "mooring"
	socketName = "agent.sock"

	// podsTimeout is shorter than kubelet's timeouts: a node must start its pods even while the API
	// server is away.
	podsTimeout = 10 * time.Second
)

// Config is the agent's command line.
type Config struct {
	Policy      string
	Root        string
	NRISocket   string
	PluginIndex string
	Listen      string
	Hook        string
	Kubeconfig  string
	NodeName    string
	BPFDir      string // directory for pins in a bpf file system; empty: no pins

	// NodeHookSocket is the socket for KubeVirt's node hooks; empty: none.
	NodeHookSocket string

	LogLevel  slog.Level
	LogFormat string

	// Proc and Cgroup are the mount points of procfs and of the cgroup v2 hierarchy. Only tests
	// change them.
	Proc, Cgroup string

	// PodsTimeout bounds the wait for the list of pods before the agent connects to the runtime.
	PodsTimeout time.Duration
}

// DefaultConfig returns the configuration of an agent without flags.
func DefaultConfig() Config {
	return Config{
		Policy:      "/etc/mooring/policy.yaml",
		Root:        "/run/mooring",
		NRISocket:   api.DefaultSocketPath,
		PluginIndex: "90",
		Listen:      "127.0.0.1:9808",
		BPFDir:      "/sys/fs/bpf/mooring",
		Hook:        "/usr/local/libexec/mooring/mooring-hook",
		LogFormat:   logflags.Text,
		Proc:        "/proc",
		Cgroup:      "/sys/fs/cgroup",
		PodsTimeout: podsTimeout,
	}
}

// addFlags binds the flags to c. The present values are the defaults.
func (c *Config) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&c.Policy, "policy", c.Policy, "node policy file; read once, at the start")
	flags.StringVar(&c.NRISocket, "nri-socket", c.NRISocket,
		"the container runtime's socket for NRI plugins")
	flags.StringVar(&c.PluginIndex, "plugin-index", c.PluginIndex,
		"two digits; the runtime calls plugins with lower numbers first")
	flags.StringVar(&c.Listen, "listen", c.Listen,
		"TCP address for /metrics, /healthz and /readyz, and on a loopback address\n"+
			"/debug/pprof; empty for none")
	flags.StringVar(&c.Hook, "hook", c.Hook,
		"program that launchers get at /run/mooring/hook: its path on the node; empty for none")
	flags.StringVar(&c.Kubeconfig, "kubeconfig", c.Kubeconfig,
		"kubeconfig file, or "+kubeclient.InCluster+" for the pod's service account; without it\n"+
			"the agent writes no Events, and rules that name service accounts refuse")
	flags.StringVar(&c.NodeName, "node-name", c.NodeName,
		"name of this node in Kubernetes (default: the host name)")
	flags.StringVar(&c.NodeHookSocket, "node-hook-socket", c.NodeHookSocket,
		"socket for the node hooks of KubeVirt 1.9 (gate Plugins), where the Plugin names it;\n"+
			"needs --kubeconfig; empty for none")
	c.addTrackerFlag(flags)
	c.addLogFlags(flags)
}

func (c *Config) addTrackerFlag(flags *pflag.FlagSet) {
	flags.StringVar(&c.BPFDir, "bpf-dir", c.BPFDir,
		"directory in a bpf file system; it keeps the tracker while no agent runs")
}

func (c *Config) addLogFlags(flags *pflag.FlagSet) {
	logflags.Add(flags, &c.LogLevel, &c.LogFormat)
}

func (c *Config) addRootFlag(flags *pflag.FlagSet) {
	flags.StringVar(&c.Root, "root", c.Root,
		"the agent's tmpfs, with its socket and the pod directories")
}

// node returns the name of this node in Kubernetes.
func (c *Config) node() (string, error) {
	if c.NodeName != "" {
		return c.NodeName, nil
	}
	name, err := os.Hostname()
	if err != nil {
		return "", fmt.Errorf("name of this node: %w; use --node-name", err)
	}
	// As kubelet does: names of nodes are lower-case.
	return strings.ToLower(strings.TrimSpace(name)), nil
}
