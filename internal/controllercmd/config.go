package controllercmd

import (
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/mooring-vm/mooring/internal/kube"
	"github.com/mooring-vm/mooring/quota"
)

// Config is the controller's command line.
type Config struct {
	Kubeconfig     string
	Listen         string
	LeaseNamespace string
	LeaderElection bool
	Workers        int
	Quota          quota.Options
	LogLevel       slog.Level
	LogFormat      string
}

// DefaultConfig is what the controller does without flags.
func DefaultConfig() Config {
	return Config{
		Kubeconfig:     kube.InCluster,
		Listen:         ":9809",
		LeaderElection: true,
		Workers:        8,
		Quota: quota.Options{
			Timeout:           quota.DefaultTimeout,
			Prefix:            quota.DefaultPrefix,
			ManagerAnnotation: quota.DefaultManagerAnnotation,
			ManagerLabel:      quota.DefaultManagerLabel,
		},
		LogFormat: formatText,
	}
}

// addFlags binds the flags to c, with the present values as defaults.
func (c *Config) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&c.Kubeconfig, "kubeconfig", c.Kubeconfig,
		"kubeconfig file, or "+kube.InCluster+" for the pod's service account")
	flags.StringVar(&c.Listen, "listen", c.Listen, "TCP address for /metrics, /healthz and /readyz; empty for none")
	flags.BoolVar(&c.LeaderElection, "leader-election", c.LeaderElection,
		"wait until no other controller is at work; without, nobody else may be")
	flags.StringVar(&c.LeaseNamespace, "lease-namespace", c.LeaseNamespace,
		"namespace of the lease that is the leader's (default: that of the pod)")
	flags.IntVar(&c.Workers, "workers", c.Workers, "how many namespaces are dealt with at once")
	flags.DurationVar(&c.Quota.Timeout, "rejected-timeout", c.Quota.Timeout,
		"how long something is reserved for a migration that a quota rejects all the same")
	flags.StringVar(&c.Quota.Prefix, "annotation-prefix", c.Quota.Prefix,
		"prefix of the annotations that users and other controllers share")
	flags.StringVar(&c.Quota.ManagerAnnotation, "manager-annotation", c.Quota.ManagerAnnotation,
		"annotation of namespaces in which a manager of quotas keeps their base; "+quota.NoManager+" for none")
	flags.StringVar(&c.Quota.ManagerLabel, "manager-label", c.Quota.ManagerLabel,
		"label, with value true, of the quota that the manager keeps")
	flags.TextVar(&c.LogLevel, "log-level", c.LogLevel, "debug, info, warn or error")
	flags.StringVar(&c.LogFormat, "log-format", c.LogFormat, formatText+" or "+formatJSON)
}

// check returns what is wrong with a command line, by its flag.
func (c *Config) check() error {
	if c.Workers < 1 {
		return fmt.Errorf("--workers %d: want 1 or more", c.Workers)
	}
	if c.Quota.Timeout < time.Second {
		return fmt.Errorf("--rejected-timeout %s: want 1s or more", c.Quota.Timeout)
	}
	domain, slash := strings.CutSuffix(c.Quota.Prefix, "/")
	if problems := validation.IsDNS1123Subdomain(domain); !slash || len(problems) > 0 {
		return fmt.Errorf("--annotation-prefix %q: want a domain and a slash, such as %s", c.Quota.Prefix, quota.DefaultPrefix)
	}
	if name := c.Quota.ManagerAnnotation; name != quota.NoManager && !qualified(name) {
		return fmt.Errorf("--manager-annotation %q: want the name of an annotation, or %s", name, quota.NoManager)
	}
	if name := c.Quota.ManagerLabel; !qualified(name) {
		return fmt.Errorf("--manager-label %q: want the name of a label", name)
	}
	return nil
}

func qualified(name string) bool { return len(validation.IsQualifiedName(name)) == 0 }
