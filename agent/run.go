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
	// settleTimeout bounds the wait of a stopping agent for the check of new launchers.
	settleTimeout = 3 * time.Second
	pollPeriod    = 20 * time.Millisecond

	readHeaderTimeout = 5 * time.Second
)

// Run runs the agent until ctx ends or a part of the agent fails. Then it stops the sources
// of work first, the workers next, and the reporters last. It must be called once.
func (a *Agent) Run(ctx context.Context) error {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	a.logger.Info("the agent starts", "version", a.build.String(), "policy", a.config.Policy,
		"mode", a.policy().Mode)

	reporters := newStage(ctx, fail)
	a.startReporters(reporters)
	workers := newStage(ctx, fail)
	a.startWorkers(ctx, workers)

	a.awaitPods(ctx)
	a.publishOwners(ctx)
	a.connection.Run(ctx)

	a.logger.Info("the agent stops", "cause", context.Cause(ctx))
	notify(a.logger, stopping)
	a.settle(context.WithoutCancel(ctx))
	return errors.Join(workers.stop(), reporters.stop(), a.closeFiles())
}

// startReporters starts the tasks that report the agent's state: admin API, metrics, Events.
func (a *Agent) startReporters(s *stage) {
	server := &admin.Server{
		Launchers: a, Node: a.Node, Events: a.events, Logger: a.logger, Sizes: a.pods,
	}
	if a.supervision != nil {
		server.Leases = a.pods.LeasesUnlessHeld(a.supervision)
	}
	s.run(func(ctx context.Context) error { return server.Serve(ctx, a.listeners.socket) })
	if a.listeners.side != nil {
		side := &http.Server{
			Handler:           a.sideHandler(),
			ReadHeaderTimeout: readHeaderTimeout,
			ErrorLog:          slog.NewLogLogger(a.logger.Handler(), slog.LevelWarn),
		}
		s.run(func(ctx context.Context) error { return serve.Until(ctx, side, a.listeners.side) })
	}
	if a.kube != nil {
		s.do(a.kube.events.Run)
		s.do(a.kube.state.Run)
	}
	s.do(a.notifyReady)
}

// startWorkers starts the tasks that are too slow for NRI handlers.
func (a *Agent) startWorkers(ctx context.Context, s *stage) {
	s.do(a.guard.Run)
	s.do(func(ctx context.Context) { a.usage.run(ctx, a.registry.List) })
	if a.supervision != nil {
		a.presence.announce(ctx)
	}
	a.replayJournal()
	a.startSupervisor(s)
	if a.domainNames != nil {
		s.do(a.watchDomains)
	}
	s.do(a.watchRefusals)
	s.do(a.plugin.Run)
	s.run((&podserver.Server{Dirs: a.podDirs, Pods: a.pods, Logger: a.logger}).Run)
	if a.nodeHooks != nil {
		s.run(func(ctx context.Context) error {
			return a.nodeHooks.Serve(ctx, a.listeners.hooks)
		})
	}
	if a.kube != nil {
		s.do(a.kube.pods.Run)
		s.do(a.kube.policies.Run)
		s.do(a.policies.run)
	}
}

// watchDomains follows the running domains of the node's libvirt.
func (a *Agent) watchDomains(ctx context.Context) {
	changed := func() {}
	if a.supervision != nil {
		changed = a.supervision.DomainsChanged
	}
	a.domainNames.watch(ctx, changed)
}

// awaitPods waits for the lists of the node's pods and of NodePolicies, at most for PodsTimeout.
// Without the second one the policy of the start stays in force. Without the first one, rules
// that name service accounts refuse new launchers and skip old ones, and no pod learns the desired
// size of its VM.
func (a *Agent) awaitPods(ctx context.Context) {
	if a.kube == nil {
		return
	}
	listed := func(context.Context) (bool, error) {
		return a.kube.pods.Synced() && a.kube.policies.Synced(), nil
	}
	err := wait.PollUntilContextTimeout(ctx, pollPeriod, a.config.PodsTimeout, true, listed)
	if err != nil && ctx.Err() == nil {
		a.logger.Warn("continuing without the lists of pods and NodePolicies; resizes of VMs, and "+
			"launchers whose rule names service accounts, have to wait",
			"after", a.config.PodsTimeout, "policy", a.policies.inForce())
	}
	a.policies.update() // before the first decision
}

// publishOwners writes the state of the start gate under the policy in force. Without it, a ready
// agent would leave the state of an earlier agent, under another policy, for up to a second.
func (a *Agent) publishOwners(ctx context.Context) {
	if a.supervision != nil {
		a.supervision.Publish(ctx)
	}
}

// sideHandler serves metrics, health checks and, on a loopback address, the profiler.
func (a *Agent) sideHandler() http.Handler {
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

// settle waits until the guard has checked every running launcher. Otherwise a new launcher
// would stay unchecked while the agent is away.
func (a *Agent) settle(ctx context.Context) {
	checked := func(context.Context) (bool, error) {
		return !slices.ContainsFunc(a.Launchers(), unchecked), nil
	}
	err := wait.PollUntilContextTimeout(ctx, pollPeriod, settleTimeout, true, checked)
	if err != nil {
		a.logger.Warn("some launchers stay unchecked until the agent is back", "error", err)
	}
}

func unchecked(l agentapi.Launcher) bool {
	pending := func(s agentapi.Setting) bool { return s.Status == agentapi.StatusPending }
	return l.State == agentapi.StateRunning && slices.ContainsFunc(l.Settings, pending)
}
