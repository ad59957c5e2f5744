package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/mooring-vm/mooring/agent/admin"
	"github.com/mooring-vm/mooring/agent/metrics"
	"github.com/mooring-vm/mooring/agent/podserver"
	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/api/policy"
	"github.com/mooring-vm/mooring/internal/buildinfo"
	"github.com/mooring-vm/mooring/lifecycle"
	"github.com/mooring-vm/mooring/plugin"
)

const (
	// eventBacklog is what `mooring watch` begins with, eventBuffer how far a
	// watcher may fall behind.
	eventBacklog = 1000
	eventBuffer  = 1000

	// guardInterval is the time between two checks of all running launchers.
	guardInterval = 30 * time.Second
)

// Agent is the agent of one node.
type Agent struct {
	config Config
	build  buildinfo.Info
	logger *slog.Logger

	policy     *policy.Policy
	kernel     *lifecycle.LinuxKernel
	registry   *lifecycle.Registry
	podDirs    *lifecycle.PodDirs
	guard      *lifecycle.Guard
	plugin     *plugin.Plugin
	connection *plugin.Connection
	metrics    *metrics.Metrics
	events     *admin.Ring
	kube       *kubernetes // nil without a kubeconfig
	listeners  listeners
	pods       *podserver.Node
	wanted     *podserver.FileStore
	alive      *alive

	supervision *supervision // nil where the kernel lets no processes be tracked,
	trackerErr  error        // and why
	tracker     *tracker
	names       *domainNames // nil without a libvirt of the node
}

// New makes an agent, opens what it listens on, and loads the programs that track
// processes. It changes nothing else on the node until Run is called, and asks neither
// the runtime nor Kubernetes.
func New(ctx context.Context, config Config, build buildinfo.Info, logger *slog.Logger) (*Agent, error) {
	a := &Agent{
		config:   config,
		build:    build,
		logger:   logger,
		registry: lifecycle.NewRegistry(),
		metrics:  metrics.New(metrics.Build{Version: build.Version, Revision: build.Revision, GoVersion: build.GoVersion}),
		events:   admin.NewRing(eventBacklog, eventBuffer),
		alive:    newAlive(config.Root, lifecycle.LinuxClock{}, logger),
	}
	steps := []func(context.Context) error{
		a.loadPolicy, a.openPodDirs, a.connectKube, a.makeGuard, a.makeSupervisor, a.makePlugin, a.makePods, a.listen, a.watchState,
	}
	for _, step := range steps {
		if err := step(ctx); err != nil {
			return nil, errors.Join(err, a.close())
		}
	}
	return a, nil
}

func (a *Agent) loadPolicy(context.Context) (err error) {
	a.policy, err = policy.Load(a.config.Policy)
	return err
}

func (a *Agent) openPodDirs(context.Context) (err error) {
	if err := lifecycle.CheckPodDirs(a.config.Root); err != nil {
		return fmt.Errorf("%w; `mooring-agent prepare` mounts it, as does run-mooring.mount", err)
	}
	if a.podDirs, err = lifecycle.OpenPodDirs(a.config.Root); err != nil {
		return err
	}
	a.podDirs.Logger = a.logger
	return nil
}

func (a *Agent) connectKube(context.Context) (err error) {
	if a.config.Kubeconfig == "" {
		warnAboutAccounts(a.policy, a.logger)
		return nil
	}
	a.kube, err = newKubernetes(&a.config, a.policy, a.metrics, a.logger)
	return err
}

func (a *Agent) makeGuard(context.Context) error {
	var err error
	if a.kernel, err = lifecycle.NewLinuxKernel(a.config.Proc, a.config.Cgroup); err != nil {
		return err
	}
	a.guard = lifecycle.NewGuard(lifecycle.GuardConfig{
		Registry: a.registry,
		Kernel:   a.kernel,
		Recorder: a.recorder(),
		Observer: a.metrics,
		Logger:   a.logger,
		Repair:   a.policy.Mode == policy.Enforce && a.policy.Memlock.Repair == policy.RepairPrlimit,
		Interval: guardInterval,
	})
	return nil
}

func (a *Agent) makePlugin(context.Context) (err error) {
	controllers, err := a.kernel.Controllers()
	if err != nil {
		return err
	}
	memory, err := nodeMemory(a.config.Proc)
	if err != nil {
		return err
	}
	config := plugin.Config{
		Policy:      a.policy,
		Registry:    a.registry,
		Guard:       a.guard,
		PodDirs:     a.podDirs,
		Recorder:    a.recorder(),
		Logger:      a.logger,
		Observer:    a.metrics,
		Controllers: controllers,
		NodeMemory:  memory,
		Hook:        usableHook(a.config.Hook, a.logger),
	}
	if a.kube != nil {
		config.Accounts = a.kube.pods
	}
	if a.supervision != nil {
		config.Ties = a.supervision
	}
	if a.names = newDomainNames(a.policy, a.logger); a.names != nil {
		config.Domains = a.names
	}
	if a.plugin, err = plugin.New(config); err != nil {
		return err
	}
	a.connection, err = plugin.NewConnection(plugin.ConnectionConfig{
		Socket:   a.config.NRISocket,
		Name:     pluginName,
		Index:    a.config.PluginIndex,
		Handlers: a.plugin,
		Logger:   a.logger,
		Observer: a.metrics,
	})
	return err
}

func (a *Agent) listen(ctx context.Context) (err error) {
	a.listeners, err = listenOn(ctx, filepath.Join(a.config.Root, socketName), a.config.Listen)
	return err
}

func (a *Agent) watchState(context.Context) error {
	return a.metrics.Watch(metrics.State{Launchers: a.Launchers, Node: a.Node, Tracker: a.trackerState})
}

// recorder is everybody who is told of events.
func (a *Agent) recorder() lifecycle.Recorder {
	all := recorders{a.metrics, a.events}
	if a.kube != nil {
		all = append(all, a.kube.events)
	}
	return all
}

// close gives back what New has opened.
func (a *Agent) close() error { return errors.Join(a.listeners.close(), a.closeFiles()) }

func (a *Agent) closeFiles() error {
	var errs []error
	if a.podDirs != nil {
		errs = append(errs, a.podDirs.Close())
	}
	if a.supervision != nil {
		errs = append(errs, a.supervision.close())
	}
	if a.wanted != nil {
		errs = append(errs, a.wanted.Close())
	}
	errs = append(errs, a.alive.close())
	return errors.Join(errs...)
}

// recorders passes events on to each of them.
type recorders []lifecycle.Recorder

func (r recorders) Record(event agentapi.Event) {
	for _, each := range r {
		each.Record(event)
	}
}
