package podserver

import (
	"time"

	"github.com/mooring-vm/mooring/api/podapi"
)

// Asked is what was asked of the agent for a pod, on a node without Kubernetes, and what
// its VM said that it needs.
type Asked struct {
	podapi.Size
	DryRun *podapi.DryRun `json:"dryRun,omitempty"`
	Need   *Need          `json:"need,omitempty"`
}

// Need is what a VM process needs as the memory limit of its launcher.
type Need struct {
	PID       int    `json:"pid"`
	StartTime uint64 `json:"startTime"`
	Bytes     uint64 `json:"bytes"`
}

// Wanted implements [Pod]. Where there is Kubernetes, the pod's own spec and annotations
// say it; else what the runtime was asked for last, and what the agent was asked. What
// is read first is numbered first: nothing older gets a higher generation.
func (p *pod) Wanted() (podapi.Wanted, error) {
	p.telling.Lock()
	defer p.telling.Unlock()
	w, err := p.lookUp()
	if err != nil {
		return podapi.Wanted{}, err
	}
	return p.number(w), nil
}

// lookUp reads what is wanted where it is said, which blocks for nothing but a file that
// is being stored. It is called with telling locked.
func (p *pod) lookUp() (podapi.Wanted, error) {
	l, err := p.launcher()
	if err != nil {
		return podapi.Wanted{}, err
	}
	w := podapi.Wanted{
		Launcher: l.Container.Name, Outside: l.Domain != "",
		Limits: podapi.Limits{Memory: l.Limits.Memory, CPU: l.Limits.CPU},
	}
	annotations := l.SizeAnnotations
	spec, known, err := p.spec()
	if err != nil {
		return podapi.Wanted{}, err
	}
	if known {
		w.Limits, w.Pod, annotations = spec.Limits, spec.Pod, spec.Annotations
	}
	if w.Size, err = parse(annotations, l.Container.Name); err != nil {
		w.Error = oneLine(err.Error())
	}
	if asked, ok := p.node.Store.Get(p.uid); ok {
		w.DryRun = asked.DryRun
		if asked.Size != (podapi.Size{}) {
			w.Size, w.Error = asked.Size, ""
		}
	}
	return w, nil
}

// spec returns what Kubernetes says; false: it does not know the pod. Until it has told
// of the node's pods nobody knows: the size that the pod was created with may be long past.
func (p *pod) spec() (PodSpec, bool, error) {
	if p.node.Desired == nil {
		return PodSpec{}, false, nil
	}
	synced := p.node.Desired.Synced() // before the pod is looked up, or it could come in between
	spec, known := p.node.Desired.Desired(p.uid)
	if !known && !synced {
		return PodSpec{}, false, refused(podapi.CodeStarting, "the API server has not told of the node's pods yet: try again")
	}
	return spec, known, nil
}

// number gives what is wanted its generation: another one if it is otherwise than when
// it was told last.
func (p *pod) number(w podapi.Wanted) podapi.Wanted {
	p.mu.Lock()
	defer p.mu.Unlock()
	w.Generation = p.wanted.Generation
	if w.Generation == 0 || !same(w, p.wanted) {
		w.Generation = p.node.after(w.Generation)
		p.wanted = w
	}
	return w
}

// same leaves dry runs out: they change nothing.
func same(a, b podapi.Wanted) bool {
	a.DryRun, b.DryRun = nil, nil
	return a == b
}

// after is the generation that follows another. It is at least the time since the node's
// boot, so that an agent that is started again begins above what its predecessor has told.
func (n *Node) after(generation uint64) uint64 {
	now := time.Duration(n.Clock.Now()).Milliseconds()
	return max(generation+1, uint64(max(now, 1)))
}
