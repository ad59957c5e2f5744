package plugin

import (
	"cmp"
	"iter"
	"slices"

	nri "github.com/containerd/nri/pkg/api"

	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/lifecycle/registry"
)

// snapshot is the list of the runtime from Synchronize, with its time as a generation.
type snapshot struct {
	generation registry.Generation
	pods       []*nri.PodSandbox
	containers []*nri.Container

	pending pending
}

// members yields the created and running containers of listed pods, older ones first. Of two claims
// on a domain the older one thus wins.
func (s *snapshot) members() iter.Seq[podContainer] {
	return func(yield func(podContainer) bool) {
		pods := s.podsByID()
		for _, ctr := range slices.SortedStableFunc(slices.Values(s.containers), byCreation) {
			pod := pods[ctr.GetPodSandboxId()]
			if pod != nil && stateOf(ctr) != agentapi.StateStopped &&
				!yield(podContainer{pod, ctr}) {
				return
			}
		}
	}
}

func byCreation(a, b *nri.Container) int { return cmp.Compare(a.GetCreatedAt(), b.GetCreatedAt()) }

// stateOf translates a container's state.
func stateOf(ctr *nri.Container) agentapi.State {
	switch ctr.GetState() {
	case nri.ContainerState_CONTAINER_CREATED:
		return agentapi.StateCreated
	case nri.ContainerState_CONTAINER_RUNNING, nri.ContainerState_CONTAINER_PAUSED:
		return agentapi.StateRunning
	}
	return agentapi.StateStopped
}

// reconcile brings the registry in line with the list. Later events take precedence over the list.
func (p *Plugin) reconcile(s *snapshot) {
	for m := range s.members() {
		p.reconcileContainer(s, m)
	}
	p.dropMissing(s, false)
	p.Logger.Info("registry reconciled with the runtime", "pods", len(s.pods), "containers",
		len(s.containers))
}

// reconcileContainer applies the list to one container.
func (p *Plugin) reconcileContainer(s *snapshot, m podContainer) {
	id, state, pid := m.ctr.GetId(), stateOf(m.ctr), int(m.ctr.GetPid())
	if _, ok := p.Registry.Find(id); ok {
		p.Registry.SetListedState(s.generation, id, state, pid)
		p.Guard.Enqueue(id)
		p.startTie(id)
		return
	}
	if !p.runsVM(m.pod, m.ctr) {
		if p.isSidecar(m.pod, m.ctr) {
			p.recordSidecar(m.pod, m.ctr)
		}
		return
	}
	// The container may have ended after the list. There is no later event of its removal.
	listed := registry.Launcher{
		Launcher: agentapi.Launcher{Container: agentapi.ContainerRef{ID: id, PID: pid}}}
	if p.Guard.Gone(listed) {
		return
	}
	if _, ok := p.adopt(m, state, s.generation); ok {
		p.Guard.Enqueue(id)
		p.startTie(id)
	}
}

// scanAgain is the second scan of a list, after a delay. Runtimes have omitted sandboxes and
// containers that they were just creating. Only this scan forgets launchers without any event
// since.
func (p *Plugin) scanAgain(s *snapshot) {
	p.dropMissing(s, true)
	p.dropSidecars(s)
	p.Guard.EnqueueAll()
	listed := map[string]bool{}
	for _, pod := range s.pods {
		listed[pod.GetUid()] = true
	}
	p.retainAwaited(func(uid string) bool { return listed[uid] })
	keep := func(uid string) bool { return listed[uid] || p.keepsDir(uid) }
	if err := p.PodDirs.Retain(keep); err != nil {
		p.Logger.Warn("cannot delete pod directories", "error", err)
	}
}

// dropMissing forgets launchers that the list omits. It forgets ended ones at once, and unstarted
// ones at the second scan. It never forgets a running launcher, because runtimes have lost
// containers.
func (p *Plugin) dropMissing(s *snapshot, second bool) {
	containers, sandboxes := map[string]bool{}, map[string]bool{}
	for _, ctr := range s.containers {
		containers[ctr.GetId()] = true
	}
	for _, pod := range s.pods {
		sandboxes[pod.GetId()] = true
	}
	for _, l := range p.Registry.Missing(s.generation, containers, sandboxes) {
		over := l.State == agentapi.StateStopped || l.State == agentapi.StateRefused
		unseen := second && l.Container.PID == 0
		if (over || unseen || p.Guard.Gone(l)) && p.Registry.Drop(l) {
			p.log(l).Info("launcher forgotten: the runtime does not know it", "state", l.State)
		}
	}
}
