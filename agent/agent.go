package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/mooring-vm/mooring/agent/admin"
	"github.com/mooring-vm/mooring/agent/metrics"
	"github.com/mooring-vm/mooring/agent/nodehook"
	"github.com/mooring-vm/mooring/agent/podserver"
	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/api/policy"
	"github.com/mooring-vm/mooring/internal/buildinfo"
	"github.com/mooring-vm/mooring/lifecycle/guard"
	"github.com/mooring-vm/mooring/lifecycle/host"
	"github.com/mooring-vm/mooring/lifecycle/poddir"
	"github.com/mooring-vm/mooring/lifecycle/registry"
	"github.com/mooring-vm/mooring/plugin"
)

const (
	// eventBacklog is the number of earlier events that `mooring watch` prints first.
	// eventBuffer is the number of events that a watcher may fall behind.
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

	policies   *policies
	kernel     *host.LinuxKernel
	registry   *registry.Registry
	podDirs    *poddir.Dirs
	guard      *guard.Guard
	plugin     *plugin.Plugin
	connection *plugin.Connection
	metrics    *metrics.Metrics
	events     *admin.Ring
	kube       *kubernetes // nil without a kubeconfig
	listeners  listeners

	eventLimits eventLimits
	pods        *podserver.Node
	desired     *podserver.FileStore
	presence    *presence
	usage       *usageSampler

	supervision *supervision // nil if the kernel cannot track processes
	trackerErr  error        // the reason for a nil supervision
	tracker     *tracker
	domainNames *domainNames     // nil without a libvirt of the node
	nodeHooks   *nodehook.Server // nil without a socket for them
}

// New makes an agent, opens its sockets, and loads the programs of the tracker. Until Run it
// changes nothing else on the node, and calls neither the runtime nor Kubernetes.
func New(ctx context.Context, config Config, build buildinfo.Info, logger *slog.Logger) (
	*Agent, error,
) {
	a := &Agent{
		config:   config,
		build:    build,
		logger:   logger,
		registry: registry.New(),
		metrics: metrics.New(metrics.Build{
			Version: build.Version, Revision: build.Revision, GoVersion: build.GoVersion,
		}),
		events:   admin.NewRing(eventBacklog, eventBuffer),
		presence: newPresence(config.Root, host.LinuxClock{}, logger),
	}
	steps := []func(context.Context) error{
		a.loadPolicy, a.openPodDirs, a.connectKube, a.makeGuard, a.makeSupervisor,
		a.makePlugin, a.makePods, a.listen, a.registerMetrics,
	}
	for _, step := range steps {
		if err := step(ctx); err != nil {
			return nil, errors.Join(err, a.close())
		}
	}
	return a, nil
}

func (a *Agent) loadPolicy(context.Context) (err error) {
	a.policies, err = loadPolicies(&a.config, a.logger)
	return err
}

// policy returns the policy in force.
func (a *Agent) policy() *policy.Policy { return a.policies.current.Get() }

// applyPolicy gives a new policy to the parts that do not read the present one for each decision.
func (a *Agent) applyPolicy(p *policy.Policy) {
	if a.supervision != nil {
		a.supervision.SetTerms(terms(p))
	}
	a.guard.EnqueueAll()
}

func (a *Agent) openPodDirs(context.Context) (err error) {
	if err := poddir.CheckMount(a.config.Root); err != nil {
		return fmt.Errorf("%w; `mooring-agent prepare` mounts it, as does run-mooring.mount", err)
	}
	if a.podDirs, err = poddir.Open(a.config.Root); err != nil {
		return err
	}
	a.podDirs.Logger = a.logger
	return nil
}

func (a *Agent) connectKube(context.Context) (err error) {
	if a.config.Kubeconfig == "" {
		warnAboutAccounts(a.policy(), a.logger)
		return nil
	}
	if a.kube, err = newKubernetes(&a.config, a.policies, a.metrics, a.state, a.logger); err != nil {
		return err
	}
	a.policies.cluster, a.policies.apply = a.kube.policies, a.applyPolicy
	return nil
}

func (a *Agent) makeGuard(context.Context) error {
	var err error
	if a.kernel, err = host.NewLinuxKernel(a.config.Proc, a.config.Cgroup); err != nil {
		return err
	}
	a.usage = &usageSampler{read: a.kernel.Usage, iommufd: a.kernel.HasIOMMUFD, logger: a.logger}
	a.guard = guard.New(guard.Config{
		Registry: a.registry,
		Kernel:   a.kernel,
		Recorder: a.recorders(),
		Observer: a.metrics,
		Logger:   a.logger,
		Repair: func() bool {
			p := a.policy()
			return p.Mode == policy.Enforce && p.Memlock.Repair == policy.RepairPrlimit
		},
		Enforce:  func() bool { return a.policy().Mode == policy.Enforce },
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
	inherited := &inheritedMemlock{logger: a.logger, read: a.kernel.MemlockOf, pid: func() int {
		runtime, _ := a.connection.Status()
		return runtime.RuntimePID
	}}
	pools := os.DirFS(host.HugePages)
	config := plugin.Config{
		Policy:      a.policies.current,
		Registry:    a.registry,
		Guard:       a.guard,
		PodDirs:     a.podDirs,
		Recorder:    a.recorders(),
		Logger:      a.logger,
		Observer:    a.metrics,
		Controllers: controllers,
		NodeMemory:  memory,
		Inherited:   inherited.limit,
		HugePages: func(cgroup string) (int64, error) {
			return host.HugePageLimit(a.kernel, pools, cgroup)
		},
		Hook: usableHook(a.config.Hook, a.logger),
	}
	if a.kube != nil {
		config.Accounts = a.kube.pods
	}
	if a.supervision != nil {
		config.Ties = a.supervision
	}
	if a.domainNames = newDomainNames(a.policy(), a.logger); a.domainNames != nil {
		config.Domains = a.domainNames
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
	if err != nil {
		return err
	}
	return a.listenForNodeHooks(ctx)
}

func (a *Agent) registerMetrics(context.Context) error {
	return a.metrics.Watch(metrics.State{
		Launchers: a.Launchers, Node: a.Node, Tracker: a.trackerState, Locked: a.locked,
		Fence: func() (up, known bool) { return fenceUp(a.config.Root) },
	})
}

// recorders returns all receivers of events: metrics, and within the limits of each pod the admin
// API and Kubernetes.
func (a *Agent) recorders() registry.Recorder {
	limited := recorders{a.events}
	if a.kube != nil {
		limited = append(limited, a.kube.events)
	}
	return recorders{a.metrics, eventLimiter{limits: &a.eventLimits, next: limited}}
}

// close closes all sockets and files of New.
func (a *Agent) close() error { return errors.Join(a.listeners.close(), a.closeFiles()) }

func (a *Agent) closeFiles() error {
	var errs []error
	if a.podDirs != nil {
		errs = append(errs, a.podDirs.Close())
	}
	if a.supervision != nil {
		errs = append(errs, a.supervision.close())
	}
	if a.desired != nil {
		errs = append(errs, a.desired.Close())
	}
	errs = append(errs, a.presence.close())
	return errors.Join(errs...)
}

// recorders passes each event to all recorders.
type recorders []registry.Recorder

func (r recorders) Record(event agentapi.Event) {
	for _, each := range r {
		each.Record(event)
	}
}
