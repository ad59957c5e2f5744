package plugin

import (
	"context"
	"errors"
	"fmt"
	"time"

	nri "github.com/containerd/nri/pkg/api"

	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/api/policy"
	"github.com/mooring-vm/mooring/decide"
	"github.com/mooring-vm/mooring/lifecycle/registry"
)

// Configure implements NRI's request. It subscribes to every request with a handler here.
func (p *Plugin) Configure(_ context.Context, _, runtime, version string) (nri.EventMask, error) {
	p.Logger.Info("configured by the runtime", "runtime", runtime, "version", version)
	return 0, nil
}

// Synchronize implements NRI's request. It only stores the list, because runtimes drop a slow
// plugin, and nodes have many containers.
func (p *Plugin) Synchronize(
	_ context.Context, pods []*nri.PodSandbox, ctrs []*nri.Container,
) ([]*nri.ContainerUpdate, error) {
	defer p.observe("Synchronize", time.Now(), nil)
	s := &snapshot{generation: p.Registry.Generation(), pods: pods, containers: ctrs}
	p.listed.Store(uint64(s.generation))
	p.snapshot.Store(s)
	p.wakeRun()
	return nil, nil
}

// Shutdown implements NRI's request. The end of the connection matters, not this request.
func (p *Plugin) Shutdown(context.Context) { p.Logger.Info("runtime shuts down") }

// RunPodSandbox implements NRI's request. It never fails.
func (p *Plugin) RunPodSandbox(_ context.Context, pod *nri.PodSandbox) error {
	defer p.observe("RunPodSandbox", time.Now(), nil)
	type check func(p *policy.Policy, labels, annotations map[string]string) (decide.Remark, bool)
	for _, check := range []check{decide.StrayAnnotations, decide.ConflictingLauncher} {
		if remark, ok := check(p.Policy.Get(), pod.GetLabels(), pod.GetAnnotations()); ok {
			p.report(registry.Launcher{Launcher: agentapi.Launcher{Pod: podRef(pod)}}, remark)
		}
	}
	return nil
}

// CreateContainer implements NRI's request. It gives a launcher its settings, or refuses it. Its
// error fails the creation, and users see it.
func (p *Plugin) CreateContainer(_ context.Context, pod *nri.PodSandbox, ctr *nri.Container) (
	adjust *nri.ContainerAdjustment, _ []*nri.ContainerUpdate, err error,
) {
	defer p.observe("CreateContainer", time.Now(), &err)
	if p.stopping.Load() && p.Policy.Get().Mode == policy.Enforce && p.runsVM(pod, ctr) {
		return nil, nil, errStopping
	}
	l, d := p.admit(pod, ctr)
	if !d.Launcher {
		adjust, err = p.adjustSidecar(pod, ctr)
		return adjust, nil, err
	}
	for _, r := range d.Remarks {
		p.report(l, r)
	}
	outcome := outcomeOf(d)
	defer func() { p.Observer.Decided(outcome) }()
	switch {
	case d.Mode != policy.Enforce:
		return nil, nil, nil
	case d.Refusal != nil:
		return nil, nil, d.Refusal
	}
	dir, err := p.PodDirs.Create(l.Pod.UID)
	if err != nil {
		outcome = OutcomeFailed
		return nil, nil, p.refuseWithoutDir(l, err)
	}
	// A logger of the launcher's own would cost more than this line.
	p.Logger.Info("launcher adjusted", append(attributes(l), "rule", d.Rule, "memlock", d.Memlock,
		"yield", d.Yield, "cgroup", d.Cgroup)...)
	return adjustment(d, dir, p.Hook), nil, nil
}

var errStopping = errors.New("mooring-agent is stopping; kubelet tries again")

// refuseWithoutDir refuses a launcher after a failure to create its pod directory. Without it the
// preStop hook would wait in vain.
func (p *Plugin) refuseWithoutDir(l registry.Launcher, err error) error {
	err = fmt.Errorf("mooring refuses container %q of pod %s/%s: its pod directory cannot be "+
		"created: %w",
		l.Container.Name, l.Pod.Namespace, l.Pod.Name, err)
	p.report(l, decide.Remark{Type: agentapi.Warning, Reason: agentapi.ReasonPodDirFailed,
		Message: err.Error()})
	p.Registry.Refuse(l.Container.ID, err.Error())
	return err
}

// PostCreateContainer implements NRI's request.
func (p *Plugin) PostCreateContainer(
	_ context.Context, pod *nri.PodSandbox, ctr *nri.Container,
) error {
	defer p.observe("PostCreateContainer", time.Now(), nil)
	p.setState(pod, ctr, agentapi.StateCreated)
	return nil
}

// StartContainer implements NRI's request. The container's cgroup exists, and its entry point does
// not run yet.
func (p *Plugin) StartContainer(_ context.Context, pod *nri.PodSandbox, ctr *nri.Container) error {
	defer p.observe("StartContainer", time.Now(), nil)
	if p.setState(pod, ctr, agentapi.StateCreated) {
		p.registerTie(ctr)
	}
	return nil
}

// PostStartContainer implements NRI's request.
func (p *Plugin) PostStartContainer(
	_ context.Context, pod *nri.PodSandbox, ctr *nri.Container,
) error {
	defer p.observe("PostStartContainer", time.Now(), nil)
	if p.setState(pod, ctr, agentapi.StateRunning) {
		p.Guard.Enqueue(ctr.GetId())
		p.startTie(ctr.GetId())
	} else if !p.runsVM(pod, ctr) {
		p.awaitLauncher(pod)
	}
	return nil
}

// setState changes the state of a launcher. ok is false for other containers.
func (p *Plugin) setState(pod *nri.PodSandbox, ctr *nri.Container, state agentapi.State) (ok bool) {
	if _, ok := p.findOrAdopt(pod, ctr, state); !ok {
		return false
	}
	return p.Registry.SetState(ctr.GetId(), state, int(ctr.GetPid()))
}

// UpdateContainer implements NRI's request. kubelet's update would undo settings of files that
// kubelet writes. The answer sets them again. A memory limit below the VM's memory requirement is
// refused.
func (p *Plugin) UpdateContainer(_ context.Context, pod *nri.PodSandbox, ctr *nri.Container,
	r *nri.LinuxResources) (
	_ []*nri.ContainerUpdate, err error,
) {
	defer p.observe("UpdateContainer", time.Now(), &err)
	l, ok := p.findOrAdopt(pod, ctr, stateOf(ctr))
	if !ok {
		return nil, nil
	}
	if err := p.updateLimits(l, r); err != nil {
		return nil, err
	}
	owned := kubeletOwned(l.Given.Cgroup)
	if len(owned) == 0 {
		return nil, nil
	}
	return []*nri.ContainerUpdate{{
		ContainerId: ctr.GetId(),
		Linux:       &nri.LinuxContainerUpdate{Resources: resources(owned)},
	}}, nil
}

// PostUpdateContainer implements NRI's request.
func (p *Plugin) PostUpdateContainer(
	_ context.Context, pod *nri.PodSandbox, ctr *nri.Container,
) error {
	defer p.observe("PostUpdateContainer", time.Now(), nil)
	if _, ok := p.findOrAdopt(pod, ctr, stateOf(ctr)); ok {
		p.Guard.Enqueue(ctr.GetId())
	}
	return nil
}

// StopContainer implements NRI's request. The pod may have no fields but its ID.
func (p *Plugin) StopContainer(
	_ context.Context, _ *nri.PodSandbox, ctr *nri.Container,
) ([]*nri.ContainerUpdate, error) {
	defer p.observe("StopContainer", time.Now(), nil)
	p.Registry.SetState(ctr.GetId(), agentapi.StateStopped, 0)
	p.Ties.ScanLauncher(ctr.GetId())
	return nil, nil
}

// RemoveContainer implements NRI's request.
func (p *Plugin) RemoveContainer(_ context.Context, _ *nri.PodSandbox, ctr *nri.Container) error {
	defer p.observe("RemoveContainer", time.Now(), nil)
	p.Registry.RemoveContainer(ctr.GetId())
	p.sidecars.drop(func(id string, _ sidecar) bool { return id == ctr.GetId() })
	p.Ties.ScanLauncher(ctr.GetId())
	return nil
}

// StopPodSandbox implements NRI's request.
func (p *Plugin) StopPodSandbox(_ context.Context, pod *nri.PodSandbox) error {
	defer p.observe("StopPodSandbox", time.Now(), nil)
	p.Registry.StopSandbox(pod.GetId())
	return nil
}

// RemovePodSandbox implements NRI's request. After the death of its sandbox a pod may already have
// a new one, with the same UID and directory.
func (p *Plugin) RemovePodSandbox(_ context.Context, pod *nri.PodSandbox) error {
	defer p.observe("RemovePodSandbox", time.Now(), nil)
	p.Registry.RemoveSandbox(pod.GetId())
	p.sidecars.drop(func(_ string, one sidecar) bool { return one.sandbox == pod.GetId() })
	p.retainAwaited(func(uid string) bool { return uid != pod.GetUid() })
	if err := p.PodDirs.DiscardUnless(pod.GetUid(), p.keepsDir); err != nil {
		// A failure keeps the directory, not the pod. A later round tries again.
		p.kept.add(pod.GetUid())
		p.Logger.Warn(err.Error(), "pod", pod.GetNamespace()+"/"+pod.GetName())
	}
	p.wakeRun()
	return nil
}

func (p *Plugin) observe(method string, start time.Time, err *error) {
	took := time.Since(start)
	if err == nil {
		p.Observer.Request(method, took, nil)
		return
	}
	p.Observer.Request(method, took, *err)
}
