package plugin

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mooring-vm/mooring/api/policy"
	"github.com/mooring-vm/mooring/lifecycle/host"
	"github.com/mooring-vm/mooring/lifecycle/poddir"
	"github.com/mooring-vm/mooring/lifecycle/registry"
)

const (
	// secondScanDelay is the time between the two scans of a list from Synchronize.
	secondScanDelay = 30 * time.Second

	// roundInterval is the time between rounds. A round decides about launchers without a known
	// service account, reports missing launchers, and discards directories.
	roundInterval = 10 * time.Second
)

// ServiceAccounts knows the service accounts of pods. The method answers from memory, and several
// goroutines may call it at once.
type ServiceAccounts interface {
	// ServiceAccount returns the name of a pod's service account. known is false if it is unknown
	// so far.
	ServiceAccount(podUID string) (name string, known bool)
}

// Guard checks running launchers: see [guard.Guard].
type Guard interface {
	Enqueue(containerID string)
	EnqueueAll()
	Gone(registry.Launcher) bool
}

// PodDirs creates and deletes pod directories: see [poddir.PodDirs].
type PodDirs interface {
	Create(uid string) (poddir.Dir, error)
	DiscardUnless(uid string, keep func(uid string) bool) error
	Retain(keep func(uid string) bool) error
	EmptyTrash(context.Context) error
}

// Domains knows the domains of the node's libvirt. The method answers from memory, and several
// goroutines may call it at once.
type Domains interface {
	// Same reports whether two declarations, each a name or a UUID, mean the same running domain.
	Same(a, b string) bool
}

// HugePages returns the bytes of huge pages that a pod's cgroup may have. It makes a few system
// calls.
type HugePages func(podCgroup string) (int64, error)

// Config holds the dependencies of a plugin. All fields but the last nine are required.
type Config struct {
	Policy   *policy.Current
	Registry *registry.Registry
	Guard    Guard
	PodDirs  PodDirs
	Recorder registry.Recorder
	Logger   *slog.Logger

	Accounts    ServiceAccounts     // nil: service accounts are unknown
	Observer    Observer            // nil: [NopObserver]
	Controllers []string            // see [decide.Facts]; nil: unknown
	NodeMemory  int64               // see [decide.Facts]; 0: unknown
	Ties        Ties                // nil: [NoTies]
	Domains     Domains             // nil: names and UUIDs are different domains
	Inherited   func() *host.Rlimit // see [decide.Facts]; nil: unknown
	HugePages   HugePages           // nil: no pod may have huge pages
	Hook        string              // program at /run/mooring/hook in launchers; "": none
}

// Plugin answers NRI requests. Several goroutines may call its handlers at once. Run does the slow
// work.
type Plugin struct {
	Config

	// deciding makes one step of reading the node's account, deciding and registering the result.
	// Only this calculation happens under it.
	deciding  sync.Mutex
	undecided map[string]podContainer // by container ID; needs deciding
	awaited   map[string]awaitedPod   // by pod UID; needs deciding
	kept      keptDirs
	sidecars  sidecars

	snapshot   atomic.Pointer[snapshot] // of the latest Synchronize, until Run has reconciled it
	listed     atomic.Uint64            // its generation
	reconciled atomic.Bool              // Run has reconciled a list
	stopping   atomic.Bool
	wake       chan struct{}
}

// New returns a plugin. Its handlers work at once. The caller also starts Run.
func New(cfg Config) (*Plugin, error) {
	if cfg.Policy == nil || cfg.Registry == nil || cfg.Guard == nil || cfg.PodDirs == nil ||
		cfg.Recorder == nil || cfg.Logger == nil {
		return nil, errors.New(
			"new plugin: policy, registry, guard, pod directories, recorder and logger are " +
				"required")
	}
	if cfg.Observer == nil {
		cfg.Observer = NopObserver{}
	}
	if cfg.Ties == nil {
		cfg.Ties = NoTies{}
	}
	return &Plugin{
		Config: cfg, undecided: map[string]podContainer{}, awaited: map[string]awaitedPod{},
		wake: make(chan struct{}, 1),
	}, nil
}

// Reconciled reports whether the registry contains the latest list of the runtime. Several
// goroutines may call it at once.
func (p *Plugin) Reconciled() bool { return p.reconciled.Load() && p.snapshot.Load() == nil }

// Stopping makes the plugin refuse launchers from now on, because the agent can no longer check
// their limits.
func (p *Plugin) Stopping() { p.stopping.Store(true) }

// Run does the slow work of handlers until ctx is done. It compares the registry with the list from
// Synchronize, at once and again later. It decides about undecided launchers, and deletes
// directories of removed pods.
func (p *Plugin) Run(ctx context.Context) {
	second := time.NewTimer(0)
	second.Stop()
	defer second.Stop()
	rounds := time.NewTicker(roundInterval)
	defer rounds.Stop()
	var last *snapshot
	for {
		select {
		case <-ctx.Done():
			return
		case <-p.wake:
			if s := p.snapshot.Load(); s != nil {
				p.reconcile(s)
				p.reconciled.Store(true)
				p.snapshot.CompareAndSwap(s, nil) // a newer one has woken Run again
				last = s
				second.Reset(secondScanDelay)
			}
		case <-second.C:
			p.scanAgain(last)
			p.Ties.Reconciled()
		case <-rounds.C:
			p.decideAgain()
			p.reportMissing()
			if !p.discardKept() {
				continue
			}
		}
		if err := p.PodDirs.EmptyTrash(ctx); err != nil && ctx.Err() == nil {
			p.Logger.Warn("cannot delete directories of former pods", "error", err)
		}
	}
}

// wakeRun wakes Run. It does not block.
func (p *Plugin) wakeRun() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}
