package podserver

import (
	"time"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/api/podapi"
)

// Record is the stored state of a pod: the requests to the agent on a node without Kubernetes, and
// the memory requirement of its VM.
type Record struct {
	api.Size
	DryRun      *podapi.DryRun `json:"dryRun,omitempty"`
	Requirement *Requirement   `json:"need,omitempty"`
}

// Requirement is the memory requirement of a VM process: the lowest memory limit that its launcher
// may have.
type Requirement struct {
	PID       int    `json:"pid"`
	StartTime uint64 `json:"startTime"` // in clock ticks after boot
	Bytes     uint64 `json:"bytes"`
}

// Desired implements [Pod]. With Kubernetes the pod's spec and annotations have the desired state.
// Without, the latest limits in the runtime and the latest request to the agent have it. desiredMu
// keeps the order: a state read earlier gets no higher generation.
func (p *pod) Desired() (podapi.Desired, error) {
	p.desiredMu.Lock()
	defer p.desiredMu.Unlock()
	w, err := p.readDesired()
	if err != nil {
		return podapi.Desired{}, err
	}
	return p.assignGeneration(w), nil
}

// readDesired reads the desired state. It blocks only while another goroutine writes to the store.
// The caller holds desiredMu.
func (p *pod) readDesired() (podapi.Desired, error) {
	l, err := p.launcher()
	if err != nil {
		return podapi.Desired{}, err
	}
	w, known, err := p.inKubernetes(l.Container.Name)
	if err != nil {
		return podapi.Desired{}, err
	}
	if !known {
		w = podapi.Desired{
			Launcher: l.Container.Name, Limits: podapi.Limits(l.Limits), Size: l.Size,
			Error: l.SizeError,
		}
	}
	w.Outside = l.Domain != ""
	record, err := p.node.Store.Get(p.uid)
	switch {
	case known: // the pod's object has the size
	case err != nil:
		w.Size, w.Error = api.Size{}, err.Error()
	case record.Size != (api.Size{}):
		w.Size, w.Error = record.Size, ""
	}
	w.DryRun, w.Error = record.DryRun, oneLine(w.Error)
	p.applyPolicy(&w, l.Pod.Namespace)
	return w, nil
}

// applyPolicy adds the bound of the node policy.
func (p *pod) applyPolicy(w *podapi.Desired, namespace string) {
	account, known := "", false
	if p.node.Accounts != nil {
		account, known = p.node.Accounts.ServiceAccount(p.uid)
	}
	rule, err := p.node.Policy.Get().MatchResize(namespace, account, known)
	if err != nil {
		w.Size, w.DryRun, w.Error = api.Size{}, nil, oneLine(err.Error())
		return
	}
	w.Policy = podapi.Bound{Rule: rule.Name, VCPUs: rule.Resize.MaxVCPUs,
		Memory: api.Bytes(rule.Resize.MaxMemory)}
}

// inKubernetes returns the desired state from the pod's object in Kubernetes; false: there is no
// such object. The error says that the agent has not listed the node's pods yet. The size from the
// pod's creation may be out of date, so it does not count until then.
func (p *pod) inKubernetes(launcher string) (podapi.Desired, bool, error) {
	if p.node.Desired == nil {
		return podapi.Desired{}, false, nil
	}
	synced := p.node.Desired.Synced() // first: the list could arrive between the two calls
	desired, known := p.node.Desired.Desired(p.uid, launcher)
	if !known && !synced {
		return podapi.Desired{}, false,
			refusal(podapi.CodeStarting, "the agent has not listed the node's pods yet: try again")
	}
	return desired, known, nil
}

// assignGeneration sets the generation: the previous one if the desired state is unchanged, else a
// higher one.
func (p *pod) assignGeneration(w podapi.Desired) podapi.Desired {
	p.mu.Lock()
	defer p.mu.Unlock()
	w.Generation = p.desired.Generation
	if w.Generation == 0 || !sameDesired(w, p.desired) {
		w.Generation = p.node.nextGeneration(w.Generation)
		p.desired = w
	}
	return w
}

// sameDesired ignores dry runs, which change no generation.
func sameDesired(a, b podapi.Desired) bool {
	a.DryRun, b.DryRun = nil, nil
	return a == b
}

// nextGeneration returns a generation after the given one. It is at least the number of
// milliseconds since the node's boot, so a restarted agent continues above its predecessor.
func (n *Node) nextGeneration(generation uint64) uint64 {
	now := time.Duration(n.Clock.Now()).Milliseconds()
	return max(generation+1, uint64(max(now, 1)))
}
