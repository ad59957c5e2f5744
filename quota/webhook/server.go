// Package webhook serves the admission webhooks of mooring-controller. [guard] checks requests
// against quotas, [launcher] writes the annotations of launcher pods.
package webhook

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/mooring-vm/mooring/fencing"
	"github.com/mooring-vm/mooring/quota"
	"github.com/mooring-vm/mooring/quota/virt"
	"github.com/mooring-vm/mooring/quota/webhook/certificates"
	"github.com/mooring-vm/mooring/quota/webhook/guard"
	"github.com/mooring-vm/mooring/quota/webhook/launcher"
	"github.com/mooring-vm/mooring/quota/webhook/observe"
)

// Names of the webhook configurations.
const (
	ValidatingConfiguration = "mooring-guard"
	MutatingConfiguration   = "mooring-launcher"
)

// clusterPeriod is the maximum age of the cached KubeVirt settings.
const clusterPeriod = 10 * time.Second

// Options are options of [Add].
type Options struct {
	Listen string               // TCP address, HOST:PORT
	Names  []string             // DNS names used by the API server
	Secret types.NamespacedName // holds the certificates
	// CertDir has the files tls.crt and tls.key of another issuer. Empty: the leader makes the
	// certificates and keeps them in the Secret.
	CertDir string

	Quota quota.Options
	// Observe reports the decisions of mode observe. Nil: mode enforce.
	Observe *observe.Reporter

	// Events receives the warnings about launcher pods. It must not block.
	Events events.EventRecorder

	Exempt []string // users and groups exempt from the guard
	Shim   launcher.Shim
	Fence  bool // serve the webhook of package fencing
	Logger *slog.Logger
}

// Add adds the webhooks to a manager with the scheme of the quota controller: a server in every
// replica, and the keeper of its certificates in the leader. It returns a probe check.
func Add(m manager.Manager, o Options) (ready func(*http.Request) error, err error) {
	var parts []manager.Runnable
	var server webhook.Server
	if o.CertDir != "" {
		server, err = newServer(o.Listen, webhook.Options{CertDir: o.CertDir})
	} else {
		holder := &certificates.Holder{Reader: m.GetAPIReader(), Logger: o.Logger,
			Secret: o.Secret}
		parts, ready = []manager.Runnable{holder, newKeeper(m, o)}, holder.Ready
		server, err = newServer(o.Listen, webhook.Options{
			TLSOpts: []func(*tls.Config){func(c *tls.Config) {
				c.GetCertificate = holder.Certificate
			}},
		})
	}
	if err != nil {
		return nil, err
	}
	if ready == nil {
		ready = server.StartedChecker()
	}
	for path, handler := range handlers(m, o) {
		server.Register(path, &admission.Webhook{Handler: handler})
	}
	for _, part := range append(parts, server) {
		if err := m.Add(part); err != nil {
			return nil, err
		}
	}
	return ready, nil
}

func newKeeper(m manager.Manager, o Options) *certificates.Keeper {
	return &certificates.Keeper{
		Client: m.GetClient(), Reader: m.GetAPIReader(), Logger: o.Logger,
		Secret: o.Secret, Names: o.Names, Validating: ValidatingConfiguration,
		Mutating: MutatingConfiguration, Now: time.Now,
	}
}

// newServer returns a server for this address. The options have the source of its certificate.
func newServer(listen string, options webhook.Options) (webhook.Server, error) {
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return nil, fmt.Errorf("--webhook-listen: %w", err)
	}
	number, err := strconv.ParseUint(port, 10, 16)
	if err != nil || number == 0 {
		return nil, fmt.Errorf("--webhook-listen %q: want a port from 1 to 65535", listen)
	}
	options.Host, options.Port = host, int(number)
	options.TLSOpts = append(options.TLSOpts, func(c *tls.Config) {
		c.MinVersion = tls.VersionTLS13
	})
	return webhook.NewServer(options), nil
}

// handlers returns the handlers by path.
func handlers(m manager.Manager, o Options) map[string]admission.Handler {
	exempt := append([]string{guard.KubeSystem}, o.Exempt...)
	cluster := virt.Cached(m.GetAPIReader(), clusterPeriod)
	g := guard.Config{
		Live: m.GetAPIReader(), Client: m.GetClient(), Cluster: cluster, Shim: o.Shim.Image != "",
		Quota: o.Quota, Exempt: exempt, Observe: o.Observe, Logger: o.Logger,
	}
	all := map[string]admission.Handler{
		"/validate-resourcequota":         guard.NewQuota(g),
		"/validate-namespace":             guard.NewNamespace(g),
		"/validate-virtualmachine":        guard.NewVM(g),
		"/validate-virtualmachinerestore": guard.NewRestore(g),
		"/validate-migration":             guard.NewMigration(g),
		"/validate-launcher":              guard.NewLauncher(g),
		"/validate-pod":                   guard.NewPod(g),
		"/mutate-launcher": launcher.New(launcher.Config{Reader: m.GetAPIReader(),
			Cluster: cluster, Shim: o.Shim, Observe: o.Observe, Events: o.Events,
			Logger: o.Logger}),
	}
	if o.Fence {
		all["/mutate-fencing"] = fencing.NewWebhook(o.observeFencing())
	}
	return all
}

// observeFencing returns the report of mode observe, nil in mode enforce.
func (o Options) observeFencing() fencing.Report {
	if o.Observe == nil {
		return nil
	}
	return func(r admission.Request, pod *corev1.Pod, change string) admission.Response {
		return o.Observe.Change(r, observe.Owner(pod), change)
	}
}
