package plugin

import (
	nri "github.com/containerd/nri/pkg/api"

	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/lifecycle"
)

// snapshot is what the runtime listed in Synchronize, and when.
type snapshot struct {
	generation lifecycle.Generation
	pods       []*nri.PodSandbox
	containers []*nri.Container
}

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
	pods := map[string]*nri.PodSandbox{}
	for _, pod := range s.pods {
		pods[pod.GetId()] = pod
	}
	for _, ctr := range s.containers {
		if pod := pods[ctr.GetPodSandboxId()]; pod != nil && stateOf(ctr) != agentapi.StateStopped {
			p.adopt(s, pod, ctr)
		}
	}
	p.dropMissing(s, false)
	p.Logger.Info("registry reconciled with the runtime", "pods", len(s.pods), "containers", len(s.containers))
}

// adopt takes over what the list says of a container.
func (p *Plugin) adopt(s *snapshot, pod *nri.PodSandbox, ctr *nri.Container) {
	state, pid := stateOf(ctr), int(ctr.GetPid())
	if _, ok := p.Registry.Find(ctr.GetId()); ok {
		p.Registry.Catch(s.generation, ctr.GetId(), state, pid)
		p.Guard.Enqueue(ctr.GetId())
		return
	}
	if name, ok := Recognise(p.Policy, pod.GetLabels(), pod.GetAnnotations()); !ok || name != ctr.GetName() {
		return
	}
	// It may have been removed since: nobody would tell again.
	listed := lifecycle.Launcher{Launcher: agentapi.Launcher{Container: agentapi.ContainerRef{ID: ctr.GetId(), PID: pid}}}
	if p.Guard.Gone(listed) {
		return
	}
	if _, ok := p.known(pod, ctr, state); ok {
		p.Guard.Enqueue(ctr.GetId())
	}
}

// lookAgain is the second look, some time after a Synchronize. Runtimes have left
// sandboxes and containers out that were being created just then, so only now is
// what still was not heard of forgotten.
func (p *Plugin) lookAgain(s *snapshot) {
	p.dropMissing(s, true)
	p.Guard.EnqueueAll()
	listed := map[string]bool{}
	for _, pod := range s.pods {
		listed[pod.GetUid()] = true
	}
	keep := func(uid string) bool { return listed[uid] || p.Registry.HasPod(uid) }
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
