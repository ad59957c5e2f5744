package command

import (
	"fmt"
	"log/slog"

	"github.com/spf13/pflag"

	"github.com/mooring-vm/mooring/api/policy"
	"github.com/mooring-vm/mooring/internal/kubeclient"
	"github.com/mooring-vm/mooring/internal/logflags"
	"github.com/mooring-vm/mooring/quota"
	"github.com/mooring-vm/mooring/quota/quotaflags"
)

// Config holds the controller's flags.
type Config struct {
	Mode           policy.Mode
	Kubeconfig     string
	Listen         string
	LeaseNamespace string
	LeaderElection bool
	Workers        int
	Halt           bool
	Resize         bool
	Fence          bool
	Quota          quota.Options
	Webhook        WebhookConfig
	LogLevel       slog.Level
	LogFormat      string
}

// DefaultConfig returns the defaults of all flags.
func DefaultConfig() Config {
	return Config{
		Mode:           policy.Observe,
		Kubeconfig:     kubeclient.InCluster,
		Listen:         ":9809",
		LeaderElection: true,
		Workers:        32,
		Halt:           true,
		Webhook:        defaultWebhookConfig(),
		LogFormat:      logflags.Text,
	}
}

// addFlags binds the flags to c. The present values are the defaults.
func (c *Config) addFlags(flags *pflag.FlagSet) {
	flags.StringVar((*string)(&c.Mode), "mode", string(c.Mode), "observe or enforce: report "+
		"decisions about quotas, VMs and pods, or carry them out")
	flags.StringVar(&c.Kubeconfig, "kubeconfig", c.Kubeconfig,
		"kubeconfig file, or "+kubeclient.InCluster+" for the pod's service account")
	flags.StringVar(&c.Listen, "listen", c.Listen, "TCP address for /metrics, /healthz and "+
		"/readyz; empty for none")
	flags.BoolVar(&c.LeaderElection, "leader-election", c.LeaderElection,
		"wait until no other controller leads; without it, run only one controller")
	flags.StringVar(&c.LeaseNamespace, "lease-namespace", c.LeaseNamespace,
		"namespace of the leader election lease (default: the pod's namespace)")
	flags.IntVar(&c.Workers, "workers", c.Workers, "number of namespaces handled concurrently")
	flags.BoolVar(&c.Halt, "halt-vms", c.Halt, "halt VMs without room in a quota that keeps room "+
		"for migrations")
	flags.BoolVar(&c.Resize, "resize-vms", c.Resize, "give running VMs the size that annotations "+
		"of their VirtualMachine ask for")
	flags.BoolVar(&c.Fence, "fence-pods", c.Fence, "keep deleted launcher pods of namespaces "+
		"that opt in until their VM is proven gone")
	quotaflags.Add(flags, &c.Quota)
	c.Webhook.addFlags(flags)
	logflags.Add(flags, &c.LogLevel, &c.LogFormat)
}

// check returns the first invalid flag.
func (c *Config) check() error {
	if c.Mode != policy.Observe && c.Mode != policy.Enforce {
		return fmt.Errorf("--mode %q: want %s or %s", c.Mode, policy.Observe, policy.Enforce)
	}
	if c.Workers < 1 {
		return fmt.Errorf("--workers %d: want 1 or more", c.Workers)
	}
	if err := quotaflags.Check(c.Quota); err != nil {
		return err
	}
	return c.Webhook.check()
}
