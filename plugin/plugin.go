package plugin

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mooring-vm/mooring/api/policy"
	"github.com/mooring-vm/mooring/lifecycle/poddir"
	"github.com/mooring-vm/mooring/lifecycle/registry"
)

const (
	// secondLook is how long after a Synchronize the node is looked at again.
	secondLook = 30 * time.Second

	// roundEvery is how often launchers are decided on whose service account
	// was not known when they were found, and awaited that did not come.
	roundEvery = 10 * time.Second
)

// ServiceAccounts knows the service accounts of pods. The method answers from
// memory and may be called from several goroutines at once.
type ServiceAccounts interface {
	// ServiceAccount returns the name of the service account of a pod. known
	// is false when it is not known, or not yet.
	ServiceAccount(podUID string) (name string, known bool)
}

// Guard checks running launchers: see [guard.Guard].
type Guard interface {
	Enqueue(containerID string)
	EnqueueAll()
	Gone(registry.Launcher) bool
}

// PodDirs makes and deletes pod directories: see [poddir.Dirs].
type PodDirs interface {
	Create(uid string) (poddir.Dir, error)
	DiscardUnless(uid string, keep func(uid string) bool) error
	Retain(keep func(uid string) bool) error
	EmptyTrash(context.Context) error
}

// Domains knows those of the node's libvirt. The method answers from memory and may be
// called from several goroutines at once.
type Domains interface {
	// Same reports whether two declarations, each a name or a UUID, are known to
	// mean the same running domain.
	Same(a, b string) bool
}

// Config is what a plugin works with. All fields but the last eight are required.
type Config struct {
	Policy   *policy.Policy
	Registry *registry.Registry
	Guard    Guard
	PodDirs  PodDirs
	Recorder registry.Recorder
	Logger   *slog.Logger

	Accounts    ServiceAccounts // nil: no service account is known
	Observer    Observer        // nil: nothing is counted
	Controllers []string        // see [decide.Facts]; nil: not known
	NodeMemory  int64           // see [decide.Facts]; 0: not known
	SecondLook  time.Duration   // 0: 30 s after a Synchronize
	Ties        Ties            // nil: [NoTies]
	Domains     Domains         // nil: a domain is known by what it was declared as
	Hook        string          // program that launchers find at /run/mooring/hook; "": none
}

// Plugin answers NRI requests. Its handlers may be called from several goroutines
// at once. What takes time is done by Run.
type Plugin struct {
	Config

	// deciding makes one out of reading the node's account, deciding, and
	// entering the result. It is held for that arithmetic only.
	deciding  sync.Mutex
	undecided map[string]member  // by container ID; needs deciding
	awaited   map[string]awaited // by pod UID; needs deciding
	kept      keptDirs
	sidecars  sidecars

	snapshot   atomic.Pointer[snapshot] // of the latest Synchronize, until Run has taken it over
	listed     atomic.Uint64            // the generation of that one
	reconciled atomic.Bool              // once Run has taken one over
	stopping   atomic.Bool
	wake       chan struct{}
}

// New returns a plugin. Its handlers work at once; Run has to be called for what
// they leave to be done.
func New(cfg Config) (*Plugin, error) {
	if cfg.Policy == nil || cfg.Registry == nil || cfg.Guard == nil || cfg.PodDirs == nil ||
		cfg.Recorder == nil || cfg.Logger == nil {
		return nil, errors.New("new plugin: policy, registry, guard, pod directories, recorder and logger are required")
	}
	if cfg.Observer == nil {
		cfg.Observer = NopObserver{}
	}
	if cfg.Ties == nil {
		cfg.Ties = NoTies{}
	}
	if cfg.SecondLook == 0 {
		cfg.SecondLook = secondLook
	}
	return &Plugin{Config: cfg, undecided: map[string]member{}, awaited: map[string]awaited{}, wake: make(chan struct{}, 1)}, nil
}

// Reconciled reports whether the registry has what the runtime listed when it was
// connected to. It may be called from several goroutines at once.
func (p *Plugin) Reconciled() bool { return p.reconciled.Load() && p.snapshot.Load() == nil }

// Stopping has launchers refused from now on: the agent will not be there to
// check that they got what they were given.
func (p *Plugin) Stopping() { p.stopping.Store(true) }

// Run does what handlers leave to be done, until ctx is done: it compares the
// registry with what the runtime listed in Synchronize, at once and once more
// after a while, decides what could not be decided then, and deletes the
// directories of pods that are gone.
func (p *Plugin) Run(ctx context.Context) {
	second := time.NewTimer(0)
	second.Stop()
	defer second.Stop()
	rounds := time.NewTicker(roundEvery)
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
				p.snapshot.CompareAndSwap(s, nil) // a newer one has sent for Run again
				last = s
				second.Reset(p.SecondLook)
			}
		case <-second.C:
			p.lookAgain(last)
			p.Ties.Reconciled()
		case <-rounds.C:
			p.decideAgain()
			p.tellAbsent()
			if !p.discardKept() {
				continue
			}
		}
		if err := p.PodDirs.EmptyTrash(ctx); err != nil && ctx.Err() == nil {
			p.Logger.Warn("directories of former pods could not be deleted", "error", err)
		}
	}
}

// nudge wakes Run up. It does not block.
func (p *Plugin) nudge() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}
