package guard

import (
	"context"
	"errors"
	"fmt"
	"slices"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/mooring-vm/mooring/api/v1alpha1"
	"github.com/mooring-vm/mooring/quota"
)

// NewPod returns the handler for CREATE of pods other than launchers, and for UPDATE of their
// subresource resize. The API server calls it in namespaces with [quota.ReservedLabel]. It refuses
// a pod that would get room above the base of a quota.
//
// A pod admitted lately claims its charge until the API server has stored it. Requests of a
// namespace run one at a time. The attachment pod of a migration's target always passes.
//
// A request that the handler cannot check is refused, because the room above the base belongs to
// migrations. Kubernetes' own controllers are not exempt: they create the pods of Deployments.
func NewPod(c Config) admission.Handler {
	c.Exempt = slices.DeleteFunc(slices.Clone(c.Exempt), func(of string) bool {
		return of == KubeSystem
	})
	admitted := &podClaims{}
	return newGuard(c, "pods", func(c Config, ctx context.Context, r admission.Request) error {
		return c.judgeOther(ctx, r, admitted)
	})
}

// judgeOther checks a pod that is no launcher, and the growth of any pod.
func (c Config) judgeOther(ctx context.Context, r admission.Request, admitted *podClaims) error {
	want, err := decodeDemand(r)
	if err != nil || want == nil {
		return err
	}
	err = c.admitPod(ctx, r, *want, admitted)
	var refused refusal
	if err == nil || errors.As(err, &refused) {
		return err
	}
	return refuse("Mooring could not check pod %s against the quota reserved for live migrations: "+
		"%v. Try again", want.name, err)
}

// podDemand is the charge that a request adds to quotas.
type podDemand struct {
	pod    *corev1.Pod
	name   string // for people
	charge v1alpha1.ReservedPod
}

// decodeDemand returns the demand of a request; nil for none.
func decodeDemand(r admission.Request) (*podDemand, error) {
	pod := &corev1.Pod{}
	if err := decode(r.Object, pod); err != nil {
		return nil, err
	}
	pod.Namespace = r.Namespace
	d := &podDemand{pod: pod, name: pod.Name, charge: quota.Reserve("", pod)}
	if d.name == "" {
		d.name = pod.GenerateName
	}
	if r.Operation != admissionv1.Update {
		return d, nil
	}
	was := &corev1.Pod{}
	if err := decode(r.OldObject, was); err != nil {
		return nil, err
	}
	d.charge.Charge = increase(d.charge.Charge, quota.Charge(was))
	if isZero(d.charge.Charge) {
		return nil, nil
	}
	return d, nil
}

// admitPod checks a demand beside the pods admitted lately, and makes it claim its charge.
func (c Config) admitPod(
	ctx context.Context, r admission.Request, want podDemand, admitted *podClaims,
) error {
	queue := admitted.queue(r.Namespace)
	if err := queue.enter(ctx); err != nil {
		return err
	}
	defer queue.leave()
	if err := c.dropStored(ctx, r.Namespace, queue); err != nil { // before the read of the quotas
		return err
	}
	s, err := c.read(ctx, r.Namespace)
	if err != nil || terminating(s.Namespace) {
		return err
	}
	if c.attachesToTarget(s, want.pod) {
		return nil
	}
	accounts, _ := quota.Accounts(s, c.Quota)
	lacking := quota.LackingForPod(quota.Claim(accounts, queue.charges()), want.charge)
	if lacking != "" {
		return refuse("%s: pod %s does not fit: %s. Wait until the live migrations of the namespace "+
			"have ended, or raise the quota", quota.Exceeded, want.name, lacking)
	}
	if r.DryRun == nil || !*r.DryRun {
		queue.claim(want, r.Operation, c.Now())
	}
	return nil
}

// dropStored drops the claims of pods that the API server has stored, and so charged, before.
func (c Config) dropStored(ctx context.Context, namespace string, queue *podQueue) error {
	queue.expire(c.Now())
	if len(queue.recent) == 0 {
		return nil
	}
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("PodList"))
	if err := c.list(ctx, namespace, list); err != nil {
		return fmt.Errorf("listing pods: %w", err)
	}
	stored := map[types.UID]bool{}
	for i := range list.Items {
		stored[list.Items[i].UID] = true
	}
	queue.dropStored(stored)
	return nil
}

// attachesToTarget reports whether a pod attaches disks to the target pod of a migration with a
// reservation. The reservation covers it.
func (c Config) attachesToTarget(s quota.Snapshot, pod *corev1.Pod) bool {
	owner := metav1.GetControllerOf(pod)
	if owner == nil || pod.Labels[kubevirtv1.AppLabel] != quota.AttachmentApp {
		return false
	}
	return slices.ContainsFunc(s.Pods, func(launcher *corev1.Pod) bool {
		return launcher.UID == owner.UID &&
			slices.ContainsFunc(s.Reservations, func(r *v1alpha1.MigrationReservation) bool {
				return r.Name == launcher.Labels[kubevirtv1.MigrationJobLabel]
			})
	})
}
