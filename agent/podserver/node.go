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
	"github.com/mooring-vm/mooring/lifecycle/host"
	"github.com/mooring-vm/mooring/lifecycle/registry"
)

// Node answers for the pods of the node. All fields but Desired, Headroom, Reports and
// Takes are required, and set before it is used.
type Node struct {
	Registry *registry.Registry
	Kernel   host.Kernel
	Recorder registry.Recorder
	Logger   *slog.Logger

	// Cgroup finds the cgroup of a launcher: [guard.Guard.Cgroup].
	Cgroup func(registry.Launcher) (string, error)

	// Grant decides on a memory lock, and enters it: plugin.Plugin.GrantLock.
	Grant func(containerID string, vm host.Process, lock host.Limit) error

	// Enforce is set if the policy acts. Otherwise pods are only shown what is.
	Enforce bool

	// Ready reports whether all launchers of the node are known.
	Ready func() bool

	// Clock gives the generations of what is wanted.
	Clock host.Clock

	// Headroom is what pods are told of the node policy's capacities.
	Headroom podapi.Headroom

	Desired Desired // nil: there is no Kubernetes
	Store   Store
	Reports Reports // nil: reports are shown, and not left in the pod

	// Takes is told whether somebody in a pod takes requests to end its VM:
	// [supervisor.Supervisor.SetStopHandler]. nil: nobody asks. It must not block.
	SetStopHandler func(uid string, takes bool)

	leases Leases // that pods take; nil: VM processes are not tracked here

	storeMu sync.Mutex // one change of what the store has at a time

	mu   sync.Mutex
	pods map[string]*pod // by UID

	stopHandlers stopHandlers
}

// Desired knows what the pods of the node are wanted to be, from memory.
type Desired interface {
	// Desired returns the limits of the pod, and the size that its annotations ask for, for the
	// named container. It is false for an unknown pod.
	Desired(podUID, container string) (podapi.Desired, bool)

	// Synced reports whether all pods are known. Before that, one that is not known
	// means nothing.
	Synced() bool
}

// Reports leaves reports where pods can read them: see [poddir.Dirs].
type Reports interface {
	WriteReport(uid string, data []byte) error
}

const (
	// eventEvery is how often an event tells of a pod's resizes, or the log of its memory
	// lock, and eventBurst how many more there are at first.
	eventEvery = 20 * time.Second
	eventBurst = 6
)

// pod is one, with what is kept of it.
type pod struct {
	node *Node
	uid  string

	lockMu        sync.Mutex // one change of the memory lock at a time
	requirementMu sync.Mutex // one change of what the VM needs
	desiredMu     sync.Mutex // one reading of what is wanted, until it is numbered
	eventRate     *rate.Limiter
	lockLogRate   *rate.Limiter // of the memory lock, that the log tells of

	mu                 sync.Mutex
	heldUntil          time.Time      // until when leases are kept from beginning
	startingLeases     int            // leases that are beginning
	desired            podapi.Desired // as it was told last
	reportedState      podapi.State   // as it was reported last
	reportedGeneration uint64         // the latest generation that was reported
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
			eventRate: rate.NewLimiter(rate.Every(eventEvery), eventBurst), lockLogRate: rate.NewLimiter(rate.Every(eventEvery), eventBurst),
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

// kept returns the pods of which anything is kept, some of them twice.
func (n *Node) knownUIDs() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.AppendSeq(n.Store.UIDs(), maps.Keys(n.pods))
}

// forget forgets a pod whose directory is gone. Where a launcher is known, the directory
// is about to be made. What is asked for a launcher that comes meanwhile is stored after it.
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
		n.Logger.Warn("what was wanted of a pod is still stored", "uid", uid, "error", err)
	}
}

// drop forgets what is in memory of a pod, unless a launcher of it has come meanwhile.
func (n *Node) dropUnlessKnown(uid string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.Registry.HasPod(uid) {
		return false
	}
	delete(n.pods, uid)
	return true
}

// launcher returns the pod's, which runs.
func (p *pod) launcher() (registry.Launcher, error) {
	for _, l := range p.node.Registry.OfPod(p.uid) {
		if l.State == agentapi.StateRunning {
			return l, nil
		}
	}
	if !p.node.Ready() {
		return registry.Launcher{}, refusal(podapi.CodeStarting, "the agent does not know all launchers of the node yet: try again")
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

// ended turns the end of a process or a container into an answer.
func refusalIfGone(err error) error {
	if errors.Is(err, host.ErrGone) {
		return refusal(podapi.CodeNoVM, "%v: it has just ended", registry.ErrNoVM)
	}
	return err
}

// acts returns an error in mode observe.
func (p *pod) checkEnforced() error {
	if p.node.Enforce {
		return nil
	}
	return refusal(podapi.CodeRefused, "the node policy is in mode observe, which changes nothing")
}

func amount(l host.Limit) podapi.Amount { return podapi.Amount(l) }
