package guard

import (
	"context"
	"errors"
	"fmt"
	"slices"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/mooring-vm/mooring/api/v1alpha1"
	"github.com/mooring-vm/mooring/quota"
)

// NewPod returns the handler for CREATE of pods other than launchers, and for UPDATE of their
// subresource resize. The API server calls it in namespaces with [quota.ReservedLabel]. It refuses
// a pod that would get room above the base of a quota.
//
// A pod admitted lately claims its charge until the API server has stored it. Requests of a
// namespace run one at a time. The attachment pods of a migration's target always pass.
//
// A request that the handler cannot check is refused, because the room above the base belongs to
// migrations. Kubernetes' own controllers are not exempt: they create the pods of Deployments. The
// handler answers the controller's [quota.Probe].
func NewPod(c Config) admission.Handler {
	c.Exempt = slices.DeleteFunc(slices.Clone(c.Exempt), func(of string) bool {
		return of == KubeSystem
	})
	admitted := &podClaims{}
	return probed{newGuard(c, "pods",
		func(c Config, ctx context.Context, r admission.Request) error {
			return c.judgeOther(ctx, r, admitted)
		})}
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
	if equality.Semantic.DeepEqual(was.Spec, pod.Spec) {
		return nil, nil
	}
	d.charge.Charge = increase(requestedCharge(pod), quota.Charge(was))
	if isZero(d.charge.Charge) {
		return nil, nil
	}
	return d, nil
}

// requestedCharge returns the charge of a pod when kubelet grants its resize. If kubelet found an
// earlier resize infeasible, quotas ignore spec.resources, also those of the next resize.
func requestedCharge(pod *corev1.Pod) corev1.ResourceList {
	granted := pod.DeepCopy()
	granted.Status.Conditions = slices.DeleteFunc(granted.Status.Conditions,
		func(c corev1.PodCondition) bool { return c.Type == corev1.PodResizePending })
	return quota.Charge(granted)
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
	if covered, err := c.attachesToTarget(ctx, r, s, want.pod); err != nil || covered {
		return err
	}
	if c.open(s) {
		return nil
	}
	accounts, faults := quota.Accounts(s, c.Quota)
	if err := quota.UnknownRoom(s.Quotas, faults, want.charge, c.Quota); err != nil {
		return refuse("%s: pod %s does not fit: %s", quota.Exceeded, want.name,
			describeUnknownRoom(err))
	}
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
