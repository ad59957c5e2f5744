package agent

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/mooring-vm/mooring/agent/admin"
	"github.com/mooring-vm/mooring/agent/metrics"
	"github.com/mooring-vm/mooring/agent/podserver"
	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/internal/serve"
)

const (
	// settleTimeout is how long the launchers that were started last may take
	// to be checked before the agent stops.
	settleTimeout = 3 * time.Second
	settlePeriod  = 20 * time.Millisecond

	readHeaderTimeout = 5 * time.Second
)

// Run runs the agent until ctx is done or a part of it fails. Then it stops what
// makes work before what does it, and what does it before what tells of it. It
// must be called once.
func (a *Agent) Run(ctx context.Context) error {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	a.logger.Info("the agent starts", "version", a.build.String(), "policy", a.config.Policy, "mode", a.policy.Mode)

	tellers := newStage(ctx, fail)
	a.startTellers(tellers)
	workers := newStage(ctx, fail)
	a.startWorkers(ctx, workers)

	a.awaitPods(ctx)
	a.connection.Run(ctx)

	a.logger.Info("the agent stops", "cause", context.Cause(ctx))
	notify(a.logger, stopping)
	a.settle(context.WithoutCancel(ctx))
	return errors.Join(workers.stop(), tellers.stop(), a.closeFiles())
}

// startTellers starts what shows to others how the agent fares.
func (a *Agent) startTellers(s *stage) {
	server := &admin.Server{Launchers: a, Node: a.Node, Events: a.events, Logger: a.logger, Sizes: a.pods}
	if a.supervision != nil {
		server.Leases = a.pods.Holding(a.supervision)
	}
	s.run(func(ctx context.Context) error { return server.Serve(ctx, a.listeners.socket) })
	if a.listeners.side != nil {
		side := &http.Server{
			Handler:           a.endpoints(),
			ReadHeaderTimeout: readHeaderTimeout,
			ErrorLog:          slog.NewLogLogger(a.logger.Handler(), slog.LevelWarn),
		}
		s.run(func(ctx context.Context) error { return serve.Until(ctx, side, a.listeners.side) })
	}
	if a.kube != nil {
		s.do(a.kube.events.Run)
	}
	s.do(a.announce)
}

// startWorkers starts what takes longer than the runtime may be kept waiting.
func (a *Agent) startWorkers(ctx context.Context, s *stage) {
	s.do(a.guard.Run)
	if a.supervision != nil {
		a.alive.begin(ctx)
	}
	a.replayFence()
	a.startSupervisor(s)
	if a.names != nil {
		s.do(a.watchDomains)
	}
	s.do(a.plugin.Run)
	s.run((&podserver.Server{Dirs: a.podDirs, Pods: a.pods, Logger: a.logger}).Run)
	if a.kube != nil {
		s.do(a.kube.pods.Run)
	}
}

// watchDomains follows what domains the node's libvirt runs.
func (a *Agent) watchDomains(ctx context.Context) {
	tell := func() {}
	if a.supervision != nil {
		tell = a.supervision.DomainsChanged
	}
	a.names.watch(ctx, tell)
}

// awaitPods waits a while for the pods of the node: without them, rules that name
// service accounts refuse new launchers, nothing is decided on old ones, and no pod is
// told what size its VM is to have.
func (a *Agent) awaitPods(ctx context.Context) {
	if a.kube == nil {
		return
	}
	listed := func(context.Context) (bool, error) { return a.kube.pods.Synced(), nil }
	err := wait.PollUntilContextTimeout(ctx, settlePeriod, a.config.PodsTimeout, true, listed)
	if err != nil && ctx.Err() == nil {
		a.logger.Warn("going on without the list of pods; launchers whose rule names service accounts, and resizes of VMs, have to wait",
			"after", a.config.PodsTimeout)
	}
}

func (a *Agent) endpoints() http.Handler {
	checks := []metrics.Check{{Name: "nri", Ready: a.nriReady}}
	if a.kube != nil {
		checks = append(checks, metrics.Check{Name: "pods", Ready: a.podsReady})
	}
	return metrics.Endpoints{
		Metrics:  a.metrics.Handler(),
		Checks:   checks,
		Profiler: metrics.IsLoopback(a.listeners.side.Addr()),
	}.Handler()
}

// settle waits until every running launcher has been compared with the kernel, so
// that one which has just started is not left unchecked while the agent is away.
func (a *Agent) settle(ctx context.Context) {
	checked := func(context.Context) (bool, error) {
		return !slices.ContainsFunc(a.Launchers(), unchecked), nil
	}
	err := wait.PollUntilContextTimeout(ctx, settlePeriod, settleTimeout, true, checked)
	if err != nil {
		a.logger.Warn("launchers are left unchecked until the agent is back", "error", err)
	}
}

func unchecked(l agentapi.Launcher) bool {
	return l.State == agentapi.StateRunning && slices.ContainsFunc(l.Settings, func(s agentapi.Setting) bool {
		return s.Status == agentapi.StatusPending
	})
}
