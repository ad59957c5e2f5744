package agent

import (
	"errors"
	"fmt"

	"github.com/mooring-vm/mooring/agent/kube"
	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/api/v1alpha1"
	"github.com/mooring-vm/mooring/lifecycle/registry"
	"github.com/mooring-vm/mooring/lifecycle/tie"
)

// podEnds finds out whether a process or VM of a pod remains on the node.
type podEnds struct {
	registry     *registry.Registry
	ready        func() error // why the agent does not know the launchers of the node
	cgroupExists func(podUID string) (bool, error)
	tied         func(podUID string) bool
	// unreadableTie is that of [supervisor.FileStore].
	unreadableTie func(podUID string) error
	// domains is that of [supervisor.Domains]; nil without a libvirt of the node.
	domains func() (running, unreadable []tie.Domain, err error)
}

// deletedPods returns the reports about deleted pods with the finalizer.
func (a *Agent) deletedPods() (reports []v1alpha1.DeletedPodReport) {
	ends := &podEnds{registry: a.registry, ready: a.supervises,
		cgroupExists: a.kernel.PodCgroupExists}
	if v := a.supervision; v != nil {
		ends.tied, ends.unreadableTie = v.HasPod, v.store.UnreadableTie
		if v.domains != nil {
			ends.domains = v.domains.Running
		}
	}
	for _, pod := range a.kube.pods.Deleted() {
		reports = append(reports, ends.report(pod))
	}
	return reports
}

var errNotSupervised = errors.New("the agent cannot track VM processes")

// supervises returns nil, or the reason why the agent does not know all VMs of the node.
func (a *Agent) supervises() error {
	if a.supervision == nil {
		return fmt.Errorf("%w: %w", errNotSupervised, a.trackerErr)
	}
	return a.nriReady()
}

func (e *podEnds) report(pod kube.DeletedPod) v1alpha1.DeletedPodReport {
	err := e.ended(pod)
	r := v1alpha1.DeletedPodReport{Ended: err == nil, Pod: v1alpha1.PodReport{
		Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID}}
	if err != nil {
		r.Reason = err.Error()
	}
	return r
}

// ended returns nil after the end of the pod, or an error with the reason. It reads cgroups
// first: without one, the pod has no process that could start a VM.
func (e *podEnds) ended(pod kube.DeletedPod) error {
	if err := e.ready(); err != nil {
		return err
	}
	exists, err := e.cgroupExists(pod.UID)
	if err != nil {
		return err
	}
	if exists {
		return errors.New("the pod's cgroup exists" + e.describeVM(pod.UID))
	}
	for _, l := range e.registry.List() {
		ended := l.State == agentapi.StateStopped || l.State == agentapi.StateRefused
		if l.Pod.UID == pod.UID && (!ended || len(l.VMs) > 0) {
			return fmt.Errorf("container %s is %s%s", l.Container.Name, l.State,
				e.describeVM(pod.UID))
		}
	}
	if e.tied(pod.UID) {
		return errors.New("the agent is ending the launcher and its VMs")
	}
	if err := e.unreadableTie(pod.UID); err != nil {
		return err
	}
	return e.noDomain(pod)
}

// describeVM names a VM process of the pod; empty: the agent knows none.
func (e *podEnds) describeVM(podUID string) string {
	for _, l := range e.registry.List() {
		if l.Pod.UID == podUID && len(l.VMs) > 0 {
			vm := l.VMs[0]
			return fmt.Sprintf(", and VM process %d (%s) is %s", vm.PID, vm.Executable, vm.State)
		}
	}
	return ""
}

// noDomain returns an error if the node's libvirt runs a domain of the pod, or may run one.
func (e *podEnds) noDomain(pod kube.DeletedPod) error {
	if e.domains == nil {
		return nil
	}
	running, unreadable, err := e.domains()
	if err != nil {
		return fmt.Errorf("read the domains of the node's libvirt: %w", err)
	}
	if len(unreadable) > 0 {
		return fmt.Errorf("the record of libvirt's domain %s is unreadable: it may be the pod's",
			unreadable[0].Name)
	}
	for _, d := range running {
		_, claimed := e.registry.Claimant(d.Matches, pod.UID)
		for _, declared := range pod.Domains {
			if d.Owner.UID == "" && !claimed && d.Matches(declared) {
				return fmt.Errorf("libvirt runs domain %s, which the pod declares", d.Name)
			}
		}
		if d.Owner.UID == pod.UID {
			return fmt.Errorf("libvirt runs domain %s of the pod", d.Name)
		}
	}
	return nil
}
