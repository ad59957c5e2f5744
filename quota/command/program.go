package command

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"k8s.io/client-go/rest"
	runtimeconfig "sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	runtimemetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/api/policy"
	"github.com/mooring-vm/mooring/fencing"
	"github.com/mooring-vm/mooring/internal/kubeclient"
	"github.com/mooring-vm/mooring/internal/serve"
	"github.com/mooring-vm/mooring/nodepolicy"
	"github.com/mooring-vm/mooring/quota/controller"
)

const (
	// readHeaderTimeout bounds the header of a request to the side port.
	readHeaderTimeout = 5 * time.Second

	// stopTimeout bounds unfinished writes at the end.
	stopTimeout = 10 * time.Second
)

// newProgram returns the program as a manager ready to start. Its port is already open.
func newProgram(ctx context.Context, config Config, logger *slog.Logger) (manager.Manager, error) {
	m, err := newManager(config)
	if err != nil {
		return nil, err
	}
	config.Quota.Observe = config.Mode == policy.Observe
	registry := prometheus.NewRegistry()
	quotas, err := controller.Add(m, controller.Options{
		Quota: config.Quota, Workers: config.Workers, Halt: config.Halt,
		Resize:  config.Resize,
		Guarded: config.Webhook.guarded(),
		Metrics: controller.NewMetrics(registry), Logger: logger,
	})
	if err != nil {
		return nil, err
	}
	if err := nodepolicy.Add(m, logger); err != nil {
		return nil, err
	}
	if config.Fence {
		if err := fencing.Add(m, fencing.Options{
			Events:  m.GetEventRecorder(agentapi.ControllerReporter),
			Metrics: fencing.NewMetrics(registry), Logger: logger,
		}); err != nil {
			return nil, err
		}
	}
	serving, err := addWebhooks(m, config, registry, logger)
	if err != nil {
		return nil, err
	}
	if config.Listen == "" {
		return m, nil
	}
	// This registry has the metrics of the libraries and of the Go runtime.
	served := prometheus.Gatherers{registry, runtimemetrics.Registry}
	side, err := newSide(ctx, config.Listen, served, both(quotas.Ready, serving), logger)
	if err != nil {
		return nil, err
	}
	return m, m.Add(side)
}

// both passes if both checks pass.
func both(first, second healthz.Checker) healthz.Checker {
	return func(r *http.Request) error { return cmp.Or(first(r), second(r)) }
}

func newManager(config Config) (manager.Manager, error) {
	server, err := kubeclient.LoadConfig(config.Kubeconfig)
	if err != nil {
		return nil, err
	}
	server = rest.AddUserAgent(server, program)
	server.QPS = -1 // the API server's priority and fairness limits the rate
	scheme, err := controller.NewScheme()
	if err != nil {
		return nil, err
	}
	return manager.New(server, manager.Options{
		Scheme: scheme,
		Cache:  controller.CacheOptions(),
		// served on the side port
		Metrics:                       metricsserver.Options{BindAddress: "0"},
		LeaderElection:                config.LeaderElection,
		LeaderElectionID:              program,
		LeaderElectionNamespace:       config.LeaseNamespace,
		LeaderElectionReleaseOnCancel: true,
		GracefulShutdownTimeout:       new(stopTimeout),
		// Names are unique per process, but tests start several controllers.
		Controller: runtimeconfig.Controller{SkipNameValidation: new(true)},
	})
}

// side is the port for metrics and probes. It serves with and without leadership.
type side struct {
	listener net.Listener
	server   *http.Server
}

func newSide(
	ctx context.Context, address string, metrics prometheus.Gatherer, ready healthz.Checker,
	logger *slog.Logger,
) (*side, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("--listen: %w", err)
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(metrics, promhttp.HandlerOpts{}))
	mux.Handle("GET /healthz", healthz.CheckHandler{Checker: healthz.Ping})
	mux.Handle("GET /readyz", healthz.CheckHandler{Checker: ready})
	return &side{l, &http.Server{
		Handler:           mux,
		ReadHeaderTimeout: readHeaderTimeout,
		ErrorLog:          slog.NewLogLogger(logger.Handler(), slog.LevelWarn),
	}}, nil
}

// Start implements [manager.Runnable].
func (s *side) Start(ctx context.Context) error { return serve.Until(ctx, s.server, s.listener) }

// NeedLeaderElection implements [manager.LeaderElectionRunnable].
func (s *side) NeedLeaderElection() bool { return false }
