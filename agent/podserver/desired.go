package podserver

import (
	"time"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/api/podapi"
)

// Asked is what was asked of the agent for a pod, on a node without Kubernetes, and what
// its VM said that it needs.
type Record struct {
	api.Size
	DryRun      *podapi.DryRun `json:"dryRun,omitempty"`
	Requirement *Requirement   `json:"need,omitempty"`
}

// Need is what a VM process needs as the memory limit of its launcher.
type Requirement struct {
	PID       int    `json:"pid"`
	StartTime uint64 `json:"startTime"`
	Bytes     uint64 `json:"bytes"`
}

// Desired implements [Pod]. Where there is Kubernetes, the pod's own spec and annotations
// say it; else what the runtime was asked for last, and what the agent was asked. What
// is read first is numbered first: nothing older gets a higher generation.
func (p *pod) Desired() (podapi.Desired, error) {
	p.desiredMu.Lock()
	defer p.desiredMu.Unlock()
	w, err := p.readDesired()
	if err != nil {
		return podapi.Desired{}, err
	}
	return p.assignGeneration(w), nil
}

// lookUp reads what is wanted where it is said, which blocks for nothing but a file that
// is being stored. It is called with telling locked.
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
			Launcher: l.Container.Name, Limits: podapi.Limits(l.Limits), Size: l.Size, Error: l.SizeError,
		}
	}
	w.Outside, w.Error = l.Domain != "", oneLine(w.Error)
	if asked, ok := p.node.Store.Get(p.uid); ok {
		w.DryRun = asked.DryRun
		if asked.Size != (api.Size{}) {
			w.Size, w.Error = asked.Size, ""
		}
	}
	return w, nil
}

// inKubernetes returns the desired state by the pod's object in Kubernetes; false: there is none.
// The error says that the node's pods are not listed yet. The size that the pod was created with
// may be out of date, so it does not count until then.
func (p *pod) inKubernetes(launcher string) (podapi.Desired, bool, error) {
	if p.node.Desired == nil {
		return podapi.Desired{}, false, nil
	}
	synced := p.node.Desired.Synced() // first: the list could arrive between the two calls
	desired, known := p.node.Desired.Desired(p.uid, launcher)
	if !known && !synced {
		return podapi.Desired{}, false, refusal(podapi.CodeStarting, "the API server has not told of the node's pods yet: try again")
	}
	return desired, known, nil
}

// number gives what is wanted its generation: another one if it is otherwise than when
// it was told last.
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

// same leaves dry runs out: they change nothing.
func sameDesired(a, b podapi.Desired) bool {
	a.DryRun, b.DryRun = nil, nil
	return a == b
}

// after is the generation that follows another. It is at least the time since the node's
// boot, so that an agent that is started again begins above what its predecessor has told.
func (n *Node) nextGeneration(generation uint64) uint64 {
	now := time.Duration(n.Clock.Now()).Milliseconds()
	return max(generation+1, uint64(max(now, 1)))
}
