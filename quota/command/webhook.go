package command

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/api/policy"
	"github.com/mooring-vm/mooring/quota"
	"github.com/mooring-vm/mooring/quota/webhook"
	"github.com/mooring-vm/mooring/quota/webhook/launcher"
	"github.com/mooring-vm/mooring/quota/webhook/observe"
)

// namespaceFile holds the name of the pod's namespace.
const namespaceFile = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// WebhookConfig holds the flags of the webhooks.
type WebhookConfig struct {
	Listen  string // empty: no webhooks
	Service string
	Names   []string // in addition to the names of the Service
	Secret  string
	CertDir string // files of another issuer, instead of the Secret
	Exempt  []string
	// Excluded are the namespaces that the webhook configurations exclude.
	Excluded []string
	Shim     launcher.Shim
}

func defaultWebhookConfig() WebhookConfig {
	return WebhookConfig{Service: program, Secret: "mooring-webhook-certificates"}
}

func (c *WebhookConfig) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&c.Listen, "webhook-listen", c.Listen, "TCP address for the admission "+
		"webhooks, such as :9443; empty for none")
	flags.StringVar(&c.Service, "webhook-service", c.Service, "Service of the webhooks in the "+
		"controller's namespace")
	flags.StringSliceVar(&c.Names, "webhook-dns-name", c.Names, "additional DNS names in the "+
		"webhooks' certificate")
	flags.StringVar(&c.Secret, "webhook-secret", c.Secret, "Secret with the webhooks' "+
		"certificates in the controller's namespace")
	flags.StringVar(&c.CertDir, "webhook-cert-dir", c.CertDir, "directory with tls.crt and "+
		"tls.key of another issuer, such as cert-manager, which also writes caBundle; empty: the "+
		"controller makes certificates")
	flags.StringSliceVar(&c.Exempt, "guard-exempt", c.Exempt,
		"users or groups exempt from the quota guard, such as a quota manager")
	flags.StringSliceVar(&c.Excluded, "webhook-excluded-namespaces", c.Excluded,
		"namespaces that the webhook configurations exclude: there the controller raises quotas "+
			"without a guard")
	flags.StringVar(&c.Shim.Image, "shim-image", c.Shim.Image, "image of mooring-shim for "+
		"launchers that request it; empty: never added")
}

// guarded returns a function that reports whether the webhooks guard a namespace; nil without
// webhooks.
func (c *WebhookConfig) guarded() func(namespace string) bool {
	if c.Listen == "" {
		return nil
	}
	return func(namespace string) bool { return !slices.Contains(c.Excluded, namespace) }
}

// check returns the first invalid flag.
func (c *WebhookConfig) check() error {
	if c.Listen == "" {
		return nil
	}
	if _, _, err := net.SplitHostPort(c.Listen); err != nil {
		return fmt.Errorf("--webhook-listen: %w", err)
	}
	for flag, value := range map[string]string{"--webhook-service": c.Service,
		"--webhook-secret": c.Secret} {
		if len(validation.IsDNS1123Subdomain(value)) > 0 {
			return fmt.Errorf("%s %q: want the name of an object", flag, value)
		}
	}
	if c.CertDir != "" && !filepath.IsAbs(c.CertDir) {
		return fmt.Errorf("--webhook-cert-dir %q: want an absolute path", c.CertDir)
	}
	for _, name := range c.Names {
		if len(validation.IsDNS1123Subdomain(name)) > 0 {
			return fmt.Errorf("--webhook-dns-name %q: want a DNS name", name)
		}
	}
	return nil
}

// options returns the webhook options for a controller in this namespace.
func (c *WebhookConfig) options(
	namespace string, quotas quota.Options, logger *slog.Logger,
) webhook.Options {
	names := []string{c.Service + "." + namespace + ".svc", c.Service + "." + namespace}
	return webhook.Options{
		Listen: c.Listen, Names: append(names, c.Names...),
		Secret:  types.NamespacedName{Namespace: namespace, Name: c.Secret},
		CertDir: c.CertDir,
		Quota:   quotas, Exempt: append([]string{ownUser(namespace)}, c.Exempt...), Shim: c.Shim,
		Logger: logger,
	}
}

// ownUser returns the user name of the controller's service account.
func ownUser(namespace string) string {
	return "system:serviceaccount:" + namespace + ":" + program
}

// addWebhooks adds the webhooks unless they are off, and returns their probe check.
func addWebhooks(
	m manager.Manager, config Config, registry prometheus.Registerer, logger *slog.Logger,
) (func(*http.Request) error, error) {
	if config.Webhook.Listen == "" {
		return func(*http.Request) error { return nil }, nil
	}
	namespace, err := config.namespace()
	if err != nil {
		return nil, fmt.Errorf("webhooks: %w", err)
	}
	options := config.Webhook.options(namespace, config.Quota, logger)
	options.Events = m.GetEventRecorder(agentapi.WebhookReporter)
	options.Fence = config.Fence
	if config.Mode == policy.Observe {
		options.Observe = observe.New(options.Events, registry)
	}
	return webhook.Add(m, options)
}

// namespace returns the controller's own namespace.
func (c *Config) namespace() (string, error) {
	if c.LeaseNamespace != "" {
		return c.LeaseNamespace, nil
	}
	text, err := os.ReadFile(namespaceFile)
	if errors.Is(err, os.ErrNotExist) {
		return "", errors.New("unknown namespace of the controller: outside of a pod, set " +
			"--lease-namespace")
	}
	return strings.TrimSpace(string(text)), err
}
