package plugin

import (
	"cmp"
	"iter"
	"slices"

	nri "github.com/containerd/nri/pkg/api"

	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/lifecycle/registry"
)

// snapshot is what the runtime listed in Synchronize, and when.
type snapshot struct {
	generation registry.Generation
	pods       []*nri.PodSandbox
	containers []*nri.Container

	// launchers are those among them, as far as they can be judged without
	// asking the kernel which still run. See [Plugin.launchersOf].
	launchers []registry.Launcher
	judged    bool
}

// launchersOf returns the launchers of a list that was not taken over yet. The
// caller decides; what it costs is arithmetic, and is done once.
func (p *Plugin) launchersOf(s *snapshot) []registry.Launcher {
	if s.judged {
		return s.launchers
	}
	for m := range s.members() {
		if p.runsVM(m.pod, m.ctr) {
			l, _ := p.judge(m, stateOf(m.ctr))
			s.launchers = append(s.launchers, l)
		}
	}
	s.judged = true
	return s.launchers
}

// members yields the containers that have not stopped, and whose pod is listed. Older
// ones come first: of two that claim the same domain, it is theirs.
func (s *snapshot) members() iter.Seq[member] {
	return func(yield func(member) bool) {
		pods := map[string]*nri.PodSandbox{}
		for _, pod := range s.pods {
			pods[pod.GetId()] = pod
		}
		for _, ctr := range slices.SortedStableFunc(slices.Values(s.containers), byCreation) {
			pod := pods[ctr.GetPodSandboxId()]
			if pod != nil && stateOf(ctr) != agentapi.StateStopped && !yield(member{pod, ctr}) {
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

// reconcile brings the registry in line with what the runtime listed. Events may
// have come since, so the list only speaks of launchers that were there before.
func (p *Plugin) reconcile(s *snapshot) {
	for m := range s.members() {
		p.adopt(s, m)
	}
	p.dropMissing(s, false)
	p.Logger.Info("registry reconciled with the runtime", "pods", len(s.pods), "containers", len(s.containers))
}

// adopt takes over what the list says of a container.
func (p *Plugin) adopt(s *snapshot, m member) {
	id, state, pid := m.ctr.GetId(), stateOf(m.ctr), int(m.ctr.GetPid())
	if _, ok := p.Registry.Find(id); ok {
		p.Registry.Catch(s.generation, id, state, pid)
		p.Guard.Enqueue(id)
		p.tieRunning(id)
		return
	}
	if !p.runsVM(m.pod, m.ctr) {
		if p.isSidecar(m.pod, m.ctr) {
			p.noteSidecar(m.pod, m.ctr)
		}
		return
	}
	// It may have been removed since: nobody would tell again.
	listed := registry.Launcher{Launcher: agentapi.Launcher{Container: agentapi.ContainerRef{ID: id, PID: pid}}}
	if p.Guard.Gone(listed) {
		return
	}
	if _, ok := p.take(m, state, s.generation); ok {
		p.Guard.Enqueue(id)
		p.tieRunning(id)
	}
}

// lookAgain is the second look, some time after a Synchronize. Runtimes have left
// sandboxes and containers out that were being created just then, so only now is
// what still was not heard of forgotten.
func (p *Plugin) lookAgain(s *snapshot) {
	p.dropMissing(s, true)
	p.dropSidecars(s)
	p.Guard.EnqueueAll()
	listed := map[string]bool{}
	for _, pod := range s.pods {
		listed[pod.GetUid()] = true
	}
	p.forgetAwaited(func(uid string) bool { return listed[uid] })
	keep := func(uid string) bool { return listed[uid] || p.keepsDir(uid) }
	if err := p.PodDirs.Retain(keep); err != nil {
		p.Logger.Warn("pod directories could not be cleared", "error", err)
	}
}

// dropMissing forgets launchers that the runtime did not list. One that is proven
// gone is forgotten at once, one of which nothing is known at the second look, and
// one that runs never: runtimes have lost containers.
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
