package guard

import (
	"context"
	"fmt"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/mooring-vm/mooring/quota"
	"github.com/mooring-vm/mooring/quota/estimate"
)

// NewVM returns the handler for CREATE and UPDATE of VirtualMachines, and for UPDATE of their
// status with a start request. It refuses a VM if its launcher, overhead included, would need more
// than the free amounts. For a running VM only its growth counts. It also refuses a restart beyond
// the quota, because the VM could not start again. It checks only requests that lead to a launcher:
// stopping, deleting, or changing a stopped VM always passes.
//
// Requests of virt-controller pass, because the guard checks its launcher.
func NewVM(c Config) admission.Handler { return newGuard(c, "virtualmachines", Config.judgeVM) }

func (c Config) judgeVM(ctx context.Context, r admission.Request) error {
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
	return c.judgeSize(ctx, r.UserInfo.Username, was, is, "VirtualMachine "+is.Name)
}

// judgeSize checks a VM that should run. If it already should have (was is not nil), only the
// growth by this change counts.
func (c Config) judgeSize(
	ctx context.Context, user string, was, is *kubevirtv1.VirtualMachine, what string,
) error {
	s, err := c.read(ctx, is.Namespace)
	if err != nil || terminating(s.Namespace) || len(s.Quotas) == 0 {
		return err
	}
	cluster, err := c.Cluster(ctx)
	if err != nil || user == cluster.Controller() {
		return err
	}
	launcher, err := c.estimate(ctx, s, cluster, is)
	if err != nil {
		return err
	}
	has := largestCharge(s, is.Name)
	if was != nil {
		was.Namespace = is.Namespace
		if before, err := c.estimate(ctx, s, cluster, was); err == nil {
			has = quota.Max(has, before.Pod.Charge)
		}
	}
	wants := launcher.Pod
	wants.Charge = increase(wants.Charge, has)
	if lacking := c.lacking(s, wants); lacking != "" {
		return refuse("%s does not fit: %s", what, tooLarge(launcher, lacking, len(has) > 0))
	}
	if was != nil || len(has) == 0 {
		return nil
	}
	accounts, _ := quota.Accounts(s, c.Quota)
	if lacking := quota.LackingForReplacement(accounts, launcher.Pod, has); lacking != "" {
		return refuse("%s could not start again: %s. Stop another VM, or raise the quota",
			what, lacking)
	}
	return nil
}

// tooLarge explains why a VM does not fit, and KubeVirt's part in its size.
func tooLarge(l estimate.Launcher, lacking string, grows bool) string {
	needs, limit := "it needs", ""
	if grows {
		needs = "it grows by"
	}
	if l.LimitRatio > 0 {
		limit = fmt.Sprintf("; the VM has no memory limit, so KubeVirt sets it to %g times the "+
			"request", l.LimitRatio)
	}
	return fmt.Sprintf("%s more than is free: %s. %s of its memory are the launcher's overhead, "+
		"which KubeVirt adds to the guest's%s. "+
		"Stop another VM, wait until migrations have ended, or raise the quota", needs, lacking,
		&l.Overhead, limit)
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

// largestCharge returns the largest charge of each resource among a VM's launchers. During a
// migration there are two.
func largestCharge(s quota.Snapshot, vm string) corev1.ResourceList {
	sum := corev1.ResourceList{}
	for _, pod := range s.Pods {
		if vmOf(pod) == vm && pod.Labels[kubevirtv1.AppLabel] == quota.LauncherApp &&
			quota.Charged(pod, s.Now) {
			sum = quota.Max(sum, quota.Charge(pod))
		}
	}
	return sum
}

// vmOf returns the name of a launcher's VM, which is the name of its instance.
func vmOf(pod *corev1.Pod) string {
	if owner := metav1.GetControllerOf(pod); owner != nil {
		return owner.Name
	}
	return pod.Annotations[kubevirtv1.DomainAnnotation]
}

// increase returns the amounts of wants that exceed has.
func increase(wants, has corev1.ResourceList) corev1.ResourceList {
	more := corev1.ResourceList{}
	for name, q := range wants {
		q = q.DeepCopy()
		q.Sub(has[name])
		if q.Sign() < 0 {
			q = resource.Quantity{}
		}
		more[name] = q
	}
	return more
}
