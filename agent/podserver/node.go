package podserver

import (
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/api/podapi"
	"github.com/mooring-vm/mooring/api/policy"
	"github.com/mooring-vm/mooring/lifecycle/host"
	"github.com/mooring-vm/mooring/lifecycle/registry"
)

// Node serves the pods of the node. The caller sets all fields before use. Only Desired,
// Accounts, Reports and SetStopHandler are optional.
type Node struct {
	Registry *registry.Registry
	Kernel   host.Kernel
	Recorder registry.Recorder
	Logger   *slog.Logger

	// Cgroup returns the cgroup of a launcher: [guard.Guard.Cgroup].
	Cgroup func(registry.Launcher) (string, error)

	// Grant decides about a memory lock and records it in the account: plugin.Plugin.GrantLock.
	Grant func(containerID string, vm host.Process, lock host.Limit) error

	// Policy is the node's policy. In mode observe pods can only read.
	Policy *policy.Current

	// Ready reports whether the agent knows all launchers of the node.
	Ready func() bool

	// Clock is the base of the generations of the desired state.
	Clock host.Clock

	Desired  Desired         // nil: without Kubernetes
	Accounts ServiceAccounts // nil: service accounts are unknown
	Store    Store
	Reports  Reports // nil: no copies of reports in the pods' directories

	// SetStopHandler gets the UID of a pod when its first stop handler arrives (true) and after its
	// last one has left (false): [supervisor.Supervisor.SetStopHandler]. nil: no one listens. It
	// must not block.
	SetStopHandler func(uid string, takes bool)

	leases Leases // for the pods' own leases; nil: the kernel cannot track VM processes

	storeMu sync.Mutex // for a change of a stored record

	growths growths

	mu   sync.Mutex
	pods map[string]*pod // by UID

	stopHandlers stopHandlers
}

// Desired returns the desired state of the node's pods from memory.
type Desired interface {
	// Desired returns the limits of the pod, and the size that its annotations ask for, for the
	// named container. It is false for an unknown pod.
	Desired(podUID, container string) (podapi.Desired, bool)

	// Synced reports whether the first list of pods is complete. Before that, an unknown pod may
	// exist.
	Synced() bool
}

// ServiceAccounts knows the service accounts of pods from memory.
type ServiceAccounts interface {
	ServiceAccount(podUID string) (name string, known bool)
}

// Reports writes reports into the pods' directories: see [poddir.Dirs].
type Reports interface {
	WriteReport(uid string, data []byte) error
}

const (
	// eventEvery is the shortest time between two Events of a pod's resizes, or two log lines about
	// its memory lock. eventBurst is the bucket's size.
	eventEvery = 20 * time.Second
	eventBurst = 6
)

// pod is one pod with the agent's state of it.
type pod struct {
	node *Node
	uid  string

	lockMu        sync.Mutex // for a change of the memory lock
	requirementMu sync.Mutex // for a change of the memory requirement
	desiredMu     sync.Mutex // from reading the desired state to its generation
	eventRate     *rate.Limiter
	lockLogRate   *rate.Limiter // of log lines about the memory lock

	mu                 sync.Mutex
	heldUntil          time.Time      // end of the hold
	startingLeases     int            // number of leases about to start
	desired            podapi.Desired // latest desired state
	reportedState      podapi.State   // of the latest report
	reportedGeneration uint64         // the highest one in a report
}

var _ Pods = (*Node)(nil)

// Pod implements [Pods].
func (n *Node) Pod(uid string) Pod { return n.pod(uid) }

func (n *Node) pod(uid string) *pod {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.pods == nil {
		n.pods = map[string]*pod{}
	}
	p := n.pods[uid]
	if p == nil {
		p = &pod{
			node: n, uid: uid,
			eventRate:   rate.NewLimiter(rate.Every(eventEvery), eventBurst),
			lockLogRate: rate.NewLimiter(rate.Every(eventEvery), eventBurst),
		}
		n.pods[uid] = p
	}
	return p
}

// Forget implements [Pods].
func (n *Node) Forget(uid string) { n.forget(uid, func(string) bool { return true }) }

// Sweep implements [Pods].
func (n *Node) Sweep(gone func(uid string) bool) {
	if !n.Ready() {
		return
	}
	for _, uid := range n.knownUIDs() {
		n.forget(uid, gone)
	}
}

// knownUIDs returns the pods in memory and in the store, some of them twice.
func (n *Node) knownUIDs() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.AppendSeq(n.Store.UIDs(), maps.Keys(n.pods))
}

// forget drops the state of a pod without directory. It keeps a pod with a launcher, whose
// directory is about to be made. storeMu orders it before requests for a launcher that starts
// meanwhile.
func (n *Node) forget(uid string, gone func(uid string) bool) {
	if n.Registry.HasPod(uid) || !gone(uid) {
		return
	}
	n.storeMu.Lock()
	defer n.storeMu.Unlock()
	if !n.dropUnlessKnown(uid) {
		return
	}
	if err := n.Store.Delete(uid); err != nil {
		n.Logger.Warn("deleting the stored requests of a pod failed", "uid", uid, "error", err)
	}
}

// dropUnlessKnown drops the memory of a pod, unless a launcher has started meanwhile.
func (n *Node) dropUnlessKnown(uid string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.Registry.HasPod(uid) {
		return false
	}
	delete(n.pods, uid)
	return true
}

// launcher returns the pod's running launcher.
func (p *pod) launcher() (registry.Launcher, error) {
	for _, l := range p.node.Registry.OfPod(p.uid) {
		if l.State == agentapi.StateRunning {
			return l, nil
		}
	}
	if !p.node.Ready() {
		return registry.Launcher{}, refusal(podapi.CodeStarting, "the agent does not know all "+
			"launchers of the node yet: try again")
	}
	return registry.Launcher{}, refusal(podapi.CodeNoVM, "no launcher of the pod runs")
}

// vm returns the launcher with its VM process.
func (p *pod) vm() (registry.Launcher, host.Process, error) {
	l, err := p.launcher()
	if err != nil {
		return l, host.Process{}, err
	}
	vm, err := l.VM()
	if err != nil {
		err = refusal(podapi.CodeNoVM, "%v", err)
	}
	return l, vm, err
}

// refusalIfGone turns the end of a process or a container into a refusal.
func refusalIfGone(err error) error {
	if errors.Is(err, host.ErrGone) {
		return refusal(podapi.CodeNoVM, "%v: it has just ended", registry.ErrNoVM)
	}
	return err
}

// checkEnforced returns a refusal in mode observe.
func (p *pod) checkEnforced() error {
	if p.node.Policy.Get().Mode == policy.Enforce {
		return nil
	}
	return refusal(podapi.CodeRefused, "the node policy is in mode observe, which changes nothing")
}

func amount(l host.Limit) podapi.Amount { return podapi.Amount(l) }
