package resizevm

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/api/podapi"
	"github.com/mooring-vm/mooring/api/v1alpha1"
	"github.com/mooring-vm/mooring/internal/plaintext"
	"github.com/mooring-vm/mooring/quota"
	"github.com/mooring-vm/mooring/quota/estimate"
)

// compute is the launcher container of KubeVirt's launcher pods.
const compute = "compute"

// Input is the state of one VM.
type Input struct {
	VM   *kubevirtv1.VirtualMachine
	VMI  *kubevirtv1.VirtualMachineInstance // nil: the VM has no instance
	Pods []*corev1.Pod                      // launchers of the VMI

	// Reports are the reports of mooring-shim by the UID of its pod.
	Reports map[string]v1alpha1.ResizeReport

	// Accounts are the quotas of the namespace.
	Accounts []quota.Account

	// Estimate estimates the launcher of an instance. It must be pure.
	Estimate func(*kubevirtv1.VirtualMachineInstance) (estimate.Launcher, error)
}

// Decision is the next step of a resize. At most one of Resources and Annotations is set.
type Decision struct {
	Status *api.ResizeStatus // nil: the VM has no desired size

	Pod         *corev1.Pod                  // the pod to patch
	Resources   *corev1.ResourceRequirements // of its launcher container
	Annotations map[string]*string           // nil value: remove the annotation
}

// Decide returns the next step. Its error comes from [Input].Estimate.
func Decide(in Input) (Decision, error) {
	desired, err := api.ParseVMSize(in.VM.Annotations)
	d := decision{Input: in, desired: desired}
	switch {
	case err != nil:
		return d.stop(api.ResizeInvalid, "%s", plaintext.OneLine(err.Error())), nil
	case desired == (api.Size{}):
		return Decision{}, nil
	}
	if reason, why := d.findLauncher(); reason != "" {
		return d.stop(reason, "%s", why), nil
	}
	if why := d.refusal(); why != "" {
		return d.stop(api.ResizeRefused, "%s", why), nil
	}
	return d.next()
}

// decision computes one Decision.
type decision struct {
	Input
	desired   api.Size
	pod       *corev1.Pod
	container *corev1.Container
	rendered  api.Rendered
	report    *v1alpha1.ResizeReport // about the desired size; nil: none yet
	actual    *api.ResizeAmounts
}

// stop returns a decision without a patch.
func (d *decision) stop(reason api.ResizeReason, format string, args ...any) Decision {
	return Decision{Status: &api.ResizeStatus{Desired: api.AmountsOf(d.desired), Actual: d.actual,
		Reason: reason, Message: fmt.Sprintf(format, args...)}}
}

// next compares the desired size with pod and report.
func (d *decision) next() (Decision, error) {
	sized, err := d.sizedResources()
	if err != nil {
		return Decision{}, err
	}
	resources := raised(d.container.Resources, sized)
	if d.confirmed() {
		resources = d.lowered(resources, sized)
	}
	if !sameResources(resources, d.container.Resources) {
		return d.resizePod(resources), nil
	}
	if reason, why := pending(d.pod, d.container); reason != "" {
		return d.stop(reason, "%s", why), nil
	}
	if patch := d.missingAnnotations(); len(patch) > 0 {
		out := d.stop(api.ResizeUnderWay, "the launcher has the resources, mooring-shim follows")
		out.Pod, out.Annotations = d.pod, patch
		return out, nil
	}
	return d.progress(), nil
}

// resizePod patches the resources of the launcher if the quotas have room for the growth.
func (d *decision) resizePod(resources corev1.ResourceRequirements) Decision {
	if guaranteed(d.container.Resources) != guaranteed(resources) {
		return d.stop(api.ResizeRefused, "the pod would change its QoS class, which Kubernetes "+
			"refuses: restart the VM with the new size in its template")
	}
	if lacking := d.lacking(resources); lacking != "" {
		return d.stop(api.ResizeNoQuota, "it grows by more than is free: %s. Ask for less, stop "+
			"another VM, wait until migrations have ended, or raise the quota", lacking)
	}
	out := d.stop(api.ResizeUnderWay, kubeletChanges)
	if d.confirmed() {
		out = d.stop(api.ResizeDone, "%s", done)
	}
	out.Pod, out.Resources = d.pod, &resources
	return out
}

const (
	done           = "the VM has the desired size"
	kubeletChanges = "kubelet changes the resources of the launcher"
)

// progress reports the state of a pod that has resources and annotations.
func (d *decision) progress() Decision {
	if d.report == nil {
		return d.stop(api.ResizeUnderWay, "waiting for a report of mooring-shim")
	}
	switch podapi.State(d.report.State) {
	case podapi.StateDone:
		return d.stop(api.ResizeDone, "%s", done)
	case podapi.StateFailed, podapi.StateRefused:
		return d.stop(api.ResizeFailed, "%s", plaintext.OneLine(d.report.Error))
	}
	return d.stop(api.ResizeUnderWay, "mooring-shim resizes the VM")
}

// confirmed reports whether the guest has the desired size. The report may be some seconds old.
// Agent and kubelet refuse a limit that is too low, until the guest has given memory back.
func (d *decision) confirmed() bool {
	return d.report != nil && podapi.State(d.report.State) == podapi.StateDone &&
		len(d.missingAnnotations()) == 0
}
