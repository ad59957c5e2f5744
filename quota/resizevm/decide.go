package resizevm

import (
	"errors"
	"fmt"
	"slices"

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

	// Estimate estimates the launcher of an instance. It must be pure. Its error is errQuotaUnknown
	// if the quotas are unreadable. Accounts are empty then, and no growth passes.
	Estimate func(*kubevirtv1.VirtualMachineInstance) (estimate.Launcher, error)

	// GiveWay: another VM of the namespace waits for a quota. If this VM waits for its node, it
	// takes its growth back and asks later again.
	GiveWay bool

	// StaticCPUs: the node of a Guaranteed launcher has a static CPU manager.
	StaticCPUs bool

	// KeepMemoryLimits: the API server does not lower memory limits, as Kubernetes 1.33.
	KeepMemoryLimits bool
}

// Decision is the next step of a resize. At most one of Resources and Annotations is set.
type Decision struct {
	Status *api.ResizeStatus // nil: the VM has no desired size

	Pod         *corev1.Pod                  // the pod to patch
	Resources   *corev1.ResourceRequirements // of its launcher container
	Annotations map[string]*string           // nil value: remove the annotation
}

// Decide returns the next step. Its error comes from [Input].Estimate, and the status has it, too.
// A VM without a desired size keeps its last status then.
func Decide(in Input) (Decision, error) {
	desired, err := api.ParseVMSize(in.VM.Annotations)
	d := decision{Input: in, desired: desired}
	out, estimateErr := d.decide(err)
	switch {
	case estimateErr == nil || out.Status != nil:
	case desired == (api.Size{}):
		if last, ok := statusIn(in.VM.Annotations); ok {
			out.Status = &last
		}
	default:
		reason := api.ResizeNoEstimate
		if errors.Is(estimateErr, errQuotaUnknown) {
			reason = api.ResizeQuotaUnknown
		}
		out = d.stop(reason, "%s", plaintext.OneLine(estimateErr.Error()))
	}
	return out, estimateErr
}

// decide returns the next step. invalid is the error of the annotations.
func (d *decision) decide(invalid error) (Decision, error) {
	reason, why := d.findLauncher()
	d.kept = d.keptSize(reason)
	switch {
	case invalid != nil:
		return d.withdraw(d.stop(api.ResizeInvalid, "%s", plaintext.OneLine(invalid.Error())))
	case d.desired == (api.Size{}) && d.kept == (api.ResizeAmounts{}):
		return d.withdraw(Decision{})
	case d.desired == (api.Size{}):
		return d.withdraw(d.stop(api.ResizeKept, "the VM keeps %s without an annotation, until it "+
			"restarts", d.kept))
	case reason != "":
		return d.stop(reason, "%s", why), nil
	}
	if why := d.refusal(); why != "" {
		return d.withdraw(d.stop(api.ResizeRefused, "%s", why))
	}
	return d.next()
}

// decision computes one Decision.
type decision struct {
	Input
	desired   api.Size
	pod       *corev1.Pod
	container *corev1.Container
	latest    *v1alpha1.ResizeReport // of the launcher; nil: none
	actual    *api.ResizeAmounts
	kept      api.ResizeAmounts // see [api.ResizeStatus]

	sized    corev1.ResourceRequirements // of the launcher for the desired size
	accepted corev1.ResourceRequirements // by kubelet
	ready    []dimension                 // whose resources suffice for the desired size
}

// stop returns a decision without a patch.
func (d *decision) stop(reason api.ResizeReason, format string, args ...any) Decision {
	return Decision{Status: &api.ResizeStatus{Desired: api.AmountsOf(d.desired), Actual: d.actual,
		Reason: reason, Message: fmt.Sprintf(format, args...),
		Request: api.ResizeRequest(d.VM.Annotations), Kept: d.kept}}
}

// next compares the desired size with pod and report. Dimensions that shrink come first, and alone.
// All growth comes at once. So no VM holds a resource while it waits for another one.
func (d *decision) next() (Decision, error) {
	if err := d.readAccepted(); err != nil {
		return Decision{}, err
	}
	if err := d.readSized(); err != nil {
		return Decision{}, err
	}
	if d.pinsCPUs() {
		return d.patch(d.stop(api.ResizeRefused, "%s", pinnedCPUs), d.accepted), nil
	}
	d.ready = d.dimensions(func(m dimension) bool { return !m.rises(d.accepted, d.sized) })
	falling := d.dimensions(func(m dimension) bool {
		return slices.Contains(d.ready, m) && m.falls(d.accepted, d.sized)
	})
	if len(falling) > 0 {
		return d.shrink(lowered(d.accepted, d.sized, falling)), nil
	}
	return d.grow(raised(d.accepted, d.sized)), nil
}

// shrink lowers the resources of the launcher when the guest has given them back.
func (d *decision) shrink(to corev1.ResourceRequirements) Decision {
	switch {
	case !d.hasResources(d.accepted):
		return d.patch(d.stop(api.ResizeUnderWay, kubeletChanges), d.accepted)
	case len(d.missingAnnotations()) > 0:
		return d.annotate()
	case !d.confirmed():
		return d.progress()
	case d.complete():
		return d.patch(d.stop(api.ResizeDone, "%s", done), to)
	}
	return d.patch(d.stop(api.ResizeUnderWay, kubeletChanges), to)
}

// grow raises the resources of the launcher if the quotas have room for the growth.
func (d *decision) grow(to corev1.ResourceRequirements) Decision {
	reason, why := pending(d.pod, d.container)
	switch {
	case d.GiveWay && !sameResources(to, d.accepted) &&
		(reason == api.ResizeNoNode || d.waitedForNode()):
		return d.patch(d.stop(api.ResizeNoNode, givesWay), d.accepted)
	case !d.hasResources(to) && lowering(d.pod, d.container):
		return d.stop(api.ResizeUnderWay, kubeletChanges)
	case !d.hasResources(to):
		return d.patchWithinQuotas(to)
	case reason != "":
		return d.stop(reason, "%s", why)
	case len(d.missingAnnotations()) > 0:
		return d.annotate()
	}
	return d.progress()
}

// patchWithinQuotas raises the resources of the launcher. If it may not, it takes back growth that
// kubelet has not accepted.
func (d *decision) patchWithinQuotas(to corev1.ResourceRequirements) Decision {
	if !d.keepsQoS(to) {
		return d.patch(d.stop(api.ResizeRefused, "%s", changesQoS), d.accepted)
	}
	if lacking := d.lacking(to); lacking != "" {
		return d.patch(d.stop(api.ResizeNoQuota, "it grows by more than is free: %s. Ask for "+
			"less, stop another VM, wait until migrations have ended, or raise the quota",
			lacking), d.accepted)
	}
	return d.patch(d.stop(api.ResizeUnderWay, kubeletChanges), to)
}

// patch adds resources of the launcher to a decision, unless the launcher has them. It refuses
// resources that would change the QoS class of the pod.
func (d *decision) patch(out Decision, to corev1.ResourceRequirements) Decision {
	switch {
	case d.hasResources(to):
	case !d.keepsQoS(to):
		return d.stop(api.ResizeRefused, "%s", changesQoS)
	default:
		out.Pod, out.Resources = d.pod, &to
	}
	return out
}

func (d *decision) hasResources(r corev1.ResourceRequirements) bool {
	return sameResources(r, d.container.Resources)
}

// annotate writes the annotations of the ready dimensions.
func (d *decision) annotate() Decision {
	out := d.stop(api.ResizeUnderWay, "the launcher has the resources, mooring-shim follows")
	out.Pod, out.Annotations = d.pod, d.missingAnnotations()
	return out
}

const (
	done           = "the VM has the desired size"
	kubeletChanges = "kubelet changes the resources of the launcher"
	changesQoS     = "the pod would change its QoS class, which Kubernetes refuses: restart the VM " +
		"with the new size in its template"
	pinnedCPUs = "kubelet changes no CPUs of a Guaranteed pod on a node with a static CPU " +
		"manager: change spec.template of the VM, and restart it"
	givesWay = "kubelet has not accepted the growth. Another VM of the namespace waits for " +
		"quota, so this VM asks again within a minute"
)

// progress reports the state of a pod that has resources and annotations.
func (d *decision) progress() Decision {
	report := d.report()
	if report == nil {
		return d.stop(api.ResizeUnderWay, "waiting for a report of mooring-shim")
	}
	switch podapi.State(report.State) {
	case podapi.StateDone:
		return d.stop(api.ResizeDone, "%s", done)
	case podapi.StateFailed, podapi.StateRefused:
		return d.stop(api.ResizeFailed, "%s", plaintext.OneLine(report.Error))
	}
	return d.stop(api.ResizeUnderWay, "mooring-shim resizes the VM")
}

// confirmed reports whether the guest has the desired size of the ready dimensions. The report may
// be some seconds old. Agent and kubelet refuse a limit that is too low, until the guest has given
// memory back.
func (d *decision) confirmed() bool {
	report := d.report()
	return report != nil && podapi.State(report.State) == podapi.StateDone
}
