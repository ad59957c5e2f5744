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

// NewVM returns the handler for CREATE and UPDATE of VirtualMachines, and for UPDATE of
// their status, where a start is asked for. It refuses a VM whose launcher would need more
// than is free, the launcher's overhead included; of one that runs, or was to, what it grows
// by counts. A restart over the quota it refuses, too: nothing would start again. It asks only where the request makes a launcher: that a VM is stopped, deleted or
// changed while it stands still passes always.
//
// virt-controller's own requests pass: the launcher that it makes is judged.
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
	if is.DeletionTimestamp != nil || is.Spec.Template == nil || !asks(r, was, is) {
		return nil
	}
	is.Namespace = r.Namespace
	if r.SubResource != "" || was.Spec.Template == nil || !runs(was) {
		was = nil
	}
	return c.judgeSize(ctx, r.UserInfo.Username, was, is, "VirtualMachine "+is.Name)
}

// judgeSize judges a VM that is to run as it is. Of one that was to run before (was is not
// nil) it is what the change itself adds that counts, whatever its launcher was made by.
func (c Config) judgeSize(ctx context.Context, user string, was, is *kubevirtv1.VirtualMachine, what string) error {
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
	has := charged(s, is.Name)
	if was != nil {
		was.Namespace = is.Namespace
		if before, err := c.estimate(ctx, s, cluster, was); err == nil {
			has = quota.Max(has, before.Pod.Charge)
		}
	}
	wants := launcher.Pod
	wants.Charge = growth(wants.Charge, has)
	if lacking := c.lacking(s, wants); lacking != "" {
		return refuse("%s does not fit: %s", what, tooLarge(launcher, lacking, len(has) > 0))
	}
	if was != nil || len(has) == 0 {
		return nil
	}
	accounts, _ := quota.Accounts(s, c.Quota)
	if lacking := quota.LackingForReplacement(accounts, launcher.Pod, has); lacking != "" {
		return refuse("%s could not start again: %s. Stop another VM, or have the quota raised", what, lacking)
	}
	return nil
}

// tooLarge says why a VM does not fit, and what comes of KubeVirt in that.
func tooLarge(l estimate.Launcher, lacking string, grows bool) string {
	needs, limit := "it needs", ""
	if grows {
		needs = "it grows by"
	}
	if l.LimitRatio > 0 {
		limit = fmt.Sprintf("; as the VM has no memory limit, KubeVirt makes it %g times the request", l.LimitRatio)
	}
	return fmt.Sprintf("%s more than is free: %s. %s of its memory are the launcher's overhead, which KubeVirt adds to the guest's%s. "+
		"Stop another VM, wait until migrations have ended, or have the quota raised", needs, lacking, &l.Overhead, limit)
}

// asks says whether a request makes a launcher, or a larger one.
func asks(r admission.Request, was, is *kubevirtv1.VirtualMachine) bool {
	switch {
	case r.Operation == admissionv1.Create:
		return runs(is)
	case r.SubResource == "status":
		return startAsked(is) && !startAsked(was)
	case r.SubResource != "":
		return false
	}
	return runs(is) && (!runs(was) || !sameSize(was, is))
}

// runs says whether a VM has a launcher, or is to get one.
func runs(vm *kubevirtv1.VirtualMachine) bool {
	strategy, err := vm.RunStrategy()
	if err != nil {
		return false // KubeVirt refuses it
	}
	switch strategy {
	case kubevirtv1.RunStrategyHalted:
		return startAsked(vm)
	case kubevirtv1.RunStrategyManual:
		return startAsked(vm) || vm.Status.Created
	case kubevirtv1.RunStrategyRerunOnFailure: // begins with a start, and may be stopped after
		return startAsked(vm) || vm.Status.Created || vm.Status.RunStrategy != strategy
	}
	return true
}

// startAsked says whether a start is asked for, also one that follows a stop: a restart.
func startAsked(vm *kubevirtv1.VirtualMachine) bool {
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

// charged is what the launchers of a VM are charged now: of each resource the most that one
// is, as there are two of them during a migration.
func charged(s quota.Snapshot, vm string) corev1.ResourceList {
	sum := corev1.ResourceList{}
	for _, pod := range s.Pods {
		if vmOf(pod) == vm && pod.Labels[kubevirtv1.AppLabel] == quota.LauncherApp && quota.Charged(pod, s.Now) {
			sum = quota.Max(sum, quota.Charge(pod))
		}
	}
	return sum
}

// vmOf is the name of the VM that a launcher is for, which is that of its instance.
func vmOf(pod *corev1.Pod) string {
	if owner := metav1.GetControllerOf(pod); owner != nil {
		return owner.Name
	}
	return pod.Annotations[kubevirtv1.DomainAnnotation]
}

// growth is what is wanted beyond what there is.
func growth(wants, has corev1.ResourceList) corev1.ResourceList {
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
