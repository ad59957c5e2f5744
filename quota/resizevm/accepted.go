package resizevm

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/mooring-vm/mooring/api"
)

// withdraw adds a patch to a decision. The patch takes back Mooring's growth, unless kubelet has
// accepted the growth. The status annotation proves whose growth it is.
func (d *decision) withdraw(out Decision) (Decision, error) {
	_, followed := d.VM.Annotations[api.ResizeStatusKey]
	if d.pod == nil || !followed {
		return out, nil
	}
	if _, recorded, err := api.RenderedResources(d.pod.Annotations); err != nil || !recorded {
		return out, nil //nolint:nilerr // Mooring has resized no such pod
	}
	if err := d.readAccepted(); err != nil {
		return out, err
	}
	return d.patch(out, d.accepted), nil
}

// waitedForNode reports whether the last status of the desired size was NodeFull.
func (d *decision) waitedForNode() bool {
	s, ok := statusIn(d.VM.Annotations)
	return ok && s.Reason == api.ResizeNoNode && s.Desired == api.AmountsOf(d.desired)
}

// readAccepted sets the accepted resources.
func (d *decision) readAccepted() error {
	floor := askedSize(d.pod)
	if r := d.latest; r != nil && r.Actual != nil {
		floor.VCPUs = max(floor.VCPUs, r.Actual.VCPUs)
		floor.Memory = max(floor.Memory, api.Bytes(r.Actual.Memory))
	}
	needed, err := d.sizedResources(floor)
	if err != nil {
		return err
	}
	d.accepted = d.acceptedResources(needed)
	if d.KeepMemoryLimits {
		d.keepMemoryLimit(d.accepted, d.container.Resources)
	}
	return nil
}

// readSized sets the resources for the desired size.
func (d *decision) readSized() (err error) {
	d.sized, err = d.sizedResources(merged(askedSize(d.pod), d.desired))
	if err == nil && d.KeepMemoryLimits {
		d.keepMemoryLimit(d.sized, d.accepted)
	}
	return err
}

// acceptedResources returns the resources of the launcher without growth that kubelet has not
// accepted. Kubelet's status about limits may be older than the cgroup, so they never fall below
// those needed for the size of the guest.
func (d *decision) acceptedResources(
	needed corev1.ResourceRequirements,
) corev1.ResourceRequirements {
	present := d.container.Resources
	status := statusOf(d.pod, d.container)
	if reason, _ := pending(d.pod, d.container); reason == "" || status == nil {
		return *present.DeepCopy()
	}
	by := corev1.ResourceRequirements{Requests: status.AllocatedResources}
	if status.Resources != nil {
		by.Limits = status.Resources.Limits
	}
	out := lowered(present, by, dimensions())
	out = lowered(raised(out, needed), present, dimensions())
	if d.guaranteed() {
		out = raised(out, corev1.ResourceRequirements{Requests: out.Limits, Limits: out.Requests})
	}
	return out
}

// keepMemoryLimit raises the memory limit to the present one, and in a Guaranteed pod the request,
// too.
func (d *decision) keepMemoryLimit(out, present corev1.ResourceRequirements) {
	keep := func(q, was resource.Quantity, name corev1.ResourceName) bool {
		return name == corev1.ResourceMemory && q.Cmp(was) < 0
	}
	limits := corev1.ResourceRequirements{Limits: present.Limits}
	if d.guaranteed() {
		limits.Requests = present.Requests
	}
	replace(out, limits, keep)
}

// pending returns why kubelet has not accepted the resources of the container; "": it has.
func pending(pod *corev1.Pod, c *corev1.Container) (reason api.ResizeReason, why string) {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodResizePending && condition.Status == corev1.ConditionTrue &&
			!outdated(pod, condition) {
			return api.ResizeNoNode, fmt.Sprintf("kubelet has not accepted the resources of pod "+
				"%s: %s: %s. Ask for less, or migrate the VM to another node", pod.Name,
				condition.Reason, condition.Message)
		}
	}
	if allocated(pod, c, func(has, asked resource.Quantity) bool { return has.Cmp(asked) < 0 }) {
		return api.ResizeUnderWay, kubeletChanges
	}
	return "", ""
}

// lowering reports whether kubelet has not yet lowered requests of the container. More growth would
// be part of the same change, which kubelet takes as a whole.
func lowering(pod *corev1.Pod, c *corev1.Container) bool {
	return allocated(pod, c, func(has, asked resource.Quantity) bool { return has.Cmp(asked) > 0 })
}

// allocated reports whether the condition holds for a request that kubelet has accepted.
func allocated(
	pod *corev1.Pod, c *corev1.Container, where func(has, asked resource.Quantity) bool,
) (found bool) {
	if status := statusOf(pod, c); status != nil {
		for _, m := range dimensions() {
			has, ok := status.AllocatedResources[corev1.ResourceName(m)]
			found = found || ok && where(has, c.Resources.Requests[corev1.ResourceName(m)])
		}
	}
	return found
}

// outdated reports whether kubelet wrote a condition before it saw the present resources.
// Kubernetes 1.33 does not say.
func outdated(pod *corev1.Pod, c corev1.PodCondition) bool {
	return c.ObservedGeneration != 0 && c.ObservedGeneration < pod.Generation
}

func statusOf(pod *corev1.Pod, c *corev1.Container) *corev1.ContainerStatus {
	at := slices.IndexFunc(pod.Status.ContainerStatuses,
		func(s corev1.ContainerStatus) bool { return s.Name == c.Name })
	if at < 0 {
		return nil
	}
	return &pod.Status.ContainerStatuses[at]
}
