package guard

import (
	"context"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// NewVM returns the handler for CREATE and UPDATE of VirtualMachines, and for UPDATE of their
// status with a start request. It refuses a VM if its launcher, overhead included, would need more
// than the free amounts. VMs that wait for their launcher claim its charge, too, and running VMs
// the growth that their users asked for. For a running VM only its growth counts. It also refuses a
// restart beyond the quota, because the VM could not start again. It checks only requests that lead
// to a launcher: stopping, deleting, or changing a stopped VM always passes.
//
// Requests of virt-controller pass, because the guard checks its launcher.
func NewVM(c Config) admission.Handler {
	admitted := &claims{}
	return newGuard(c, "virtualmachines", func(c Config, ctx context.Context,
		r admission.Request) error {
		return c.judgeVM(ctx, r, admitted)
	})
}

func (c Config) judgeVM(ctx context.Context, r admission.Request, admitted *claims) error {
	was, is := &kubevirtv1.VirtualMachine{}, &kubevirtv1.VirtualMachine{}
	if err := decode(r.Object, is); err != nil {
		return err
	}
	if r.Operation == admissionv1.Update {
		if err := decode(r.OldObject, was); err != nil {
			return err
		}
	}
	if is.DeletionTimestamp != nil || is.Spec.Template == nil || !createsLauncher(r, was, is) {
		return nil
	}
	is.Namespace = r.Namespace
	if r.SubResource != "" || was.Spec.Template == nil || !shouldRun(was) {
		was = nil
	}
	d, err := c.readDemand(ctx, r.UserInfo.Username, was, is, "VirtualMachine "+is.Name)
	if err != nil || d == nil {
		return err
	}
	if r.DryRun != nil && *r.DryRun {
		return admitted.check(r.Namespace, c.Now(), d)
	}
	return admitted.admit(r.Namespace, c.Now(), d)
}

// createsLauncher reports whether a request leads to a launcher, or to a larger one.
func createsLauncher(r admission.Request, was, is *kubevirtv1.VirtualMachine) bool {
	switch {
	case r.Operation == admissionv1.Create:
		return shouldRun(is)
	case r.SubResource == "status":
		return startRequested(is) && !startRequested(was)
	case r.SubResource != "":
		return false
	}
	return shouldRun(is) && (!shouldRun(was) || !sameSize(was, is))
}

// shouldRun reports whether a VM has a launcher or should get one.
func shouldRun(vm *kubevirtv1.VirtualMachine) bool {
	strategy, err := vm.RunStrategy()
	if err != nil {
		return false // KubeVirt refuses it
	}
	switch strategy {
	case kubevirtv1.RunStrategyHalted:
		return startRequested(vm)
	case kubevirtv1.RunStrategyManual:
		return startRequested(vm) || vm.Status.Created
	case kubevirtv1.RunStrategyRerunOnFailure: // starts once, and may be stopped later
		return startRequested(vm) || vm.Status.Created || vm.Status.RunStrategy != strategy
	}
	return true
}

// startRequested reports a start request, alone or after a stop request (a restart).
func startRequested(vm *kubevirtv1.VirtualMachine) bool {
	for _, request := range vm.Status.StateChangeRequests {
		if request.Action == kubevirtv1.StartRequest {
			return true
		}
	}
	return false
}

func sameSize(was, is *kubevirtv1.VirtualMachine) bool {
	return equality.Semantic.DeepEqual(was.Spec.Template, is.Spec.Template) &&
		equality.Semantic.DeepEqual(was.Spec.Instancetype, is.Spec.Instancetype) &&
		equality.Semantic.DeepEqual(was.Spec.Preference, is.Spec.Preference)
}

// vmOf returns the name of a launcher's VM, which is the name of its instance.
func vmOf(pod *corev1.Pod) string {
	if owner := metav1.GetControllerOf(pod); owner != nil {
		return owner.Name
	}
	return pod.Annotations[kubevirtv1.DomainAnnotation]
}
