package command

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/spf13/pflag"

	"github.com/mooring-vm/mooring/internal/kubeclient"
	"github.com/mooring-vm/mooring/internal/logflags"
	"github.com/mooring-vm/mooring/quota"
	"github.com/mooring-vm/mooring/quota/quotaflags"
)

// Config is the controller's command line.
type Config struct {
	Kubeconfig     string
	Listen         string
	LeaseNamespace string
	LeaderElection bool
	Workers        int
	Halt           bool
	Quota          quota.Options
	Webhook        WebhookConfig
	LogLevel       slog.Level
	LogFormat      string
}

// DefaultConfig is what the controller does without flags.
func DefaultConfig() Config {
	return Config{
		Kubeconfig:     kubeclient.InCluster,
		Listen:         ":9809",
		LeaderElection: true,
		Workers:        32,
		Halt:           true,
		Quota:          quota.Options{Timeout: quota.DefaultTimeout},
		Webhook:        defaultWebhookConfig(),
		LogFormat:      logflags.Text,
	}
}

// addFlags binds the flags to c, with the present values as defaults.
func (c *Config) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&c.Kubeconfig, "kubeconfig", c.Kubeconfig,
		"kubeconfig file, or "+kubeclient.InCluster+" for the pod's service account")
	flags.StringVar(&c.Listen, "listen", c.Listen, "TCP address for /metrics, /healthz and /readyz; empty for none")
	flags.BoolVar(&c.LeaderElection, "leader-election", c.LeaderElection,
		"wait until no other controller is at work; without, nobody else may be")
	flags.StringVar(&c.LeaseNamespace, "lease-namespace", c.LeaseNamespace,
		"namespace of the lease that is the leader's (default: that of the pod)")
	flags.IntVar(&c.Workers, "workers", c.Workers, "how many namespaces are dealt with at once")
	flags.BoolVar(&c.Halt, "halt-vms", c.Halt, "halt VMs that find no room in a quota that keeps something for migrations")
	flags.DurationVar(&c.Quota.Timeout, "rejected-timeout", c.Quota.Timeout,
		"how long something is reserved for a migration that a quota rejects all the same")
	quotaflags.Add(flags, &c.Quota)
	c.Webhook.addFlags(flags)
	logflags.Add(flags, &c.LogLevel, &c.LogFormat)
}

// check returns what is wrong with a command line, by its flag.
func (c *Config) check() error {
	if c.Workers < 1 {
		return fmt.Errorf("--workers %d: want 1 or more", c.Workers)
	}
	if c.Quota.Timeout < time.Second {
		return fmt.Errorf("--rejected-timeout %s: want 1s or more", c.Quota.Timeout)
	}
	if err := quotaflags.Check(c.Quota); err != nil {
		return err
	}
	return c.Webhook.check()
}
