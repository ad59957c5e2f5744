package plugin

import (
	"maps"
	"sync"

	nri "github.com/containerd/nri/pkg/api"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/api/policy"
	"github.com/mooring-vm/mooring/decide"
	"github.com/mooring-vm/mooring/lifecycle/registry"
)

// sidecars holds containers with a mounted pod directory that are no launchers. Their directory
// must stay, because a new one of the same name would not reach them. Several goroutines may call
// its methods at once.
type sidecars struct {
	mu  sync.Mutex
	all map[string]sidecar // by container ID
}

type sidecar struct {
	uid, sandbox string
	generation   registry.Generation // of its last event or list
}

func (s *sidecars) add(containerID string, one sidecar) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all == nil {
		s.all = map[string]sidecar{}
	}
	s.all[containerID] = one
}

// drop forgets the sidecars for which is returns true.
func (s *sidecars) drop(is func(containerID string, one sidecar) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.all, is)
}

func (s *sidecars) has(podUID string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, one := range s.all {
		if one.uid == podUID {
			return true
		}
	}
	return false
}

// isSidecar reports whether the pod of a launcher names the container as its sidecar.
func (p *Plugin) isSidecar(pod *nri.PodSandbox, ctr *nri.Container) bool {
	name, ok, _ := api.Sidecar(pod.GetAnnotations()) // a malformed one refuses the launcher
	if !ok || name != ctr.GetName() {
		return false
	}
	launcher, ok := decide.Recognise(p.Policy.Get(), pod.GetLabels(), pod.GetAnnotations())
	return ok && launcher != name
}

// adjustSidecar mounts the pod's directory into a sidecar. The sidecar may start long before the
// launcher.
func (p *Plugin) adjustSidecar(
	pod *nri.PodSandbox, ctr *nri.Container,
) (*nri.ContainerAdjustment, error) {
	if p.Policy.Get().Mode != policy.Enforce || !p.isSidecar(pod, ctr) {
		return nil, nil
	}
	l := registry.Launcher{Launcher: agentapi.Launcher{
		Pod: podRef(pod), Container: agentapi.ContainerRef{Name: ctr.GetName(), ID: ctr.GetId()},
	}}
	p.recordSidecar(pod, ctr)
	dir, err := p.PodDirs.Create(l.Pod.UID)
	if err != nil {
		p.sidecars.drop(func(id string, _ sidecar) bool { return id == ctr.GetId() })
		return nil, p.refuseWithoutDir(l, err)
	}
	p.log(l).Info("sidecar adjusted")
	return adjustment(decide.Decision{}, dir, p.Hook), nil
}

func (p *Plugin) recordSidecar(pod *nri.PodSandbox, ctr *nri.Container) {
	p.sidecars.add(ctr.GetId(), sidecar{uid: pod.GetUid(), sandbox: pod.GetId(),
		generation: p.Registry.Generation()})
}

// dropSidecars forgets sidecars that are older than the list and not in it.
func (p *Plugin) dropSidecars(s *snapshot) {
	listed := map[string]bool{}
	for _, ctr := range s.containers {
		listed[ctr.GetId()] = true
	}
	p.sidecars.drop(func(id string, one sidecar) bool {
		return one.generation < s.generation && !listed[id]
	})
}
