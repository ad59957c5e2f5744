package quota

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mooring-vm/mooring/api/v1alpha1"
)

// over says whether nothing is to be reserved any more for a migration that something is
// reserved for: what remains of it is not charged.
func (p *planner) over(e entry) bool {
	if e.was.Status.Phase == v1alpha1.PhaseExpired {
		return e.outcome() != underWay || p.vmiGone(e)
	}
	switch e.outcome() {
	case underWay:
		return p.vmiGone(e) && p.remains(e) != weighsAll
	case gone:
		return p.remains(e) != weighsAll
	}
	left := p.remains(e)
	return left == weighsNothing || left == weighsStored && !p.counts(e.was)
}

// remains is how much is still charged that was reserved for: one of the two pods is within
// the base, so it is the lesser of them. After a success that is the source, which ends, and
// after a failure the target; it is judged by both because a cache may have shown a wrong
// source. While nobody knows which of them will stay, the VM being gone, both have to go.
func (p *planner) remains(e entry) weight {
	target := weighsNothing
	if launcher := e.target.launcher; launcher != nil {
		target = p.pods.weigh(launcher.UID)
	}
	if ended := e.outcome() == succeeded || e.outcome() == failed; !ended && p.vmiGone(e) {
		return max(p.weighSource(e), target)
	}
	return min(p.weighSource(e), target)
}

// weighSource judges the source pod. Where none was seen, every launcher of the VMI that no
// migration was made for, or an older one, may be it.
func (p *planner) weighSource(e entry) weight {
	if e.was.Spec.Source != nil {
		return p.pods.weigh(e.was.Spec.Source.UID)
	}
	w := weighsNothing
	for _, pod := range p.pods.ofVMI[e.was.Spec.VMI.UID] {
		if e.target.launcher == nil || pod.UID != e.target.launcher.UID {
			w = max(w, p.pods.weigh(pod.UID))
		}
	}
	return w
}

// counts says whether a quota counts stored pods that a reservation is for.
func (p *planner) counts(r *v1alpha1.MigrationReservation) bool {
	return slices.ContainsFunc(p.Quotas, func(q *corev1.ResourceQuota) bool {
		if _, counted := q.Spec.Hard[countPods]; !counted || optedOut(q, p.o) {
			return false
		}
		under, err := FallsUnder(r.Spec.Pods[0], q)
		return err == nil && under
	})
}

// underAny says whether a reservation is of use: some quota charges its pods.
func (p *planner) underAny(r *v1alpha1.MigrationReservation) bool {
	return slices.ContainsFunc(p.Quotas, func(q *corev1.ResourceQuota) bool {
		return !optedOut(q, p.o) && slices.ContainsFunc(r.Spec.Pods, func(pod v1alpha1.ReservedPod) bool {
			under, err := FallsUnder(pod, q)
			return err == nil && under
		})
	})
}

// charge enters what is known best of what the target pods are charged: the pods
// themselves, or what a webhook has seen of them, or else the source as it is now, with
// what the target is estimated at beyond that.
func (p *planner) charge(r *v1alpha1.MigrationReservation, e entry, source *corev1.Pod) {
	present := p.pods.family(source).reserve()
	if known := e.target.reserve(); len(known) > 0 && known[0].Role == v1alpha1.RoleLauncher {
		r.Spec.Pods, r.Spec.From = merge(r.Spec.Pods, known), v1alpha1.Rendered
		return
	}
	if seen := p.seen(r); len(seen) > 0 && e.rejected() {
		r.Spec.Pods, r.Spec.From = merge(merge(r.Spec.Pods, present), seen), v1alpha1.Rendered
		return
	}
	if r.Spec.From == v1alpha1.Rendered {
		return
	}
	estimate := p.estimate(r, e)
	if len(present) > 0 {
		r.Spec.Pods, r.Spec.From = present, v1alpha1.Estimated
	}
	if estimate != nil {
		enterEstimate(r, *estimate)
	}
}

// seen is what a webhook has seen of the target pod. It counts while KubeVirt, too, says that
// a quota has rejected one: not everybody who can reach the webhook is the API server.
func (p *planner) seen(r *v1alpha1.MigrationReservation) []v1alpha1.ReservedPod {
	pod, err := Rendered(r)
	if err != nil {
		p.faults = append(p.faults, Fault{"MigrationReservation", r.Name, err})
	}
	if pod == nil {
		return nil
	}
	return []v1alpha1.ReservedPod{*pod}
}

// merge replaces pods by those of the same role.
func merge(pods, by []v1alpha1.ReservedPod) []v1alpha1.ReservedPod {
	out := slices.Clone(by)
	for _, pod := range pods {
		if !slices.ContainsFunc(by, func(b v1alpha1.ReservedPod) bool { return b.Role == pod.Role }) {
			out = append(out, pod)
		}
	}
	slices.SortFunc(out, func(a, b v1alpha1.ReservedPod) int { return roleOrder(a.Role) - roleOrder(b.Role) })
	return out
}

func roleOrder(role v1alpha1.PodRole) int {
	if role == v1alpha1.RoleLauncher {
		return 0
	}
	return 1
}

// deadline gives a migration that a quota rejects its time, once, until it has a target.
func (p *planner) deadline(r *v1alpha1.MigrationReservation, e entry) {
	switch {
	case e.target.launcher != nil:
		r.Spec.Deadline = nil
	case r.Spec.Deadline == nil && e.rejected():
		r.Spec.Deadline = &metav1.Time{Time: p.Now.Add(p.o.Timeout).Truncate(time.Second)}
	}
}

func (p *planner) expired(e entry) bool {
	return e.target.launcher == nil && e.was.Spec.Deadline != nil && !p.Now.Before(e.was.Spec.Deadline.Time)
}

// vmiGone says whether the VM that a reservation is for is gone, or its namespace is going.
func (p *planner) vmiGone(e entry) bool { return e.vmi == "" || p.terminating() }

func (p *planner) alive(vmi types.UID) types.UID {
	if slices.ContainsFunc(p.VMIs, func(v VMI) bool { return v.UID == vmi }) {
		return vmi
	}
	return ""
}

func (p *planner) terminating() bool {
	return p.Namespace != nil && p.Namespace.DeletionTimestamp != nil
}

// total is the sum of what is reserved.
func total(r *v1alpha1.MigrationReservation) corev1.ResourceList {
	sum := corev1.ResourceList{}
	for _, pod := range r.Spec.Pods {
		add(sum, pod.Charge)
	}
	return sum
}

// sameReservation says whether metadata and spec are the same, whatever the way in which
// amounts are written.
func sameReservation(a, b *v1alpha1.MigrationReservation) bool {
	return slices.Equal(a.Finalizers, b.Finalizers) && a.Spec.From == b.Spec.From &&
		sameReference(a.Spec.Source, b.Spec.Source) && a.Spec.Deadline.Equal(b.Spec.Deadline) &&
		slices.EqualFunc(a.Spec.Pods, b.Spec.Pods, samePod)
}

func samePod(a, b v1alpha1.ReservedPod) bool {
	return a.Role == b.Role && a.BestEffort == b.BestEffort && a.Terminating == b.Terminating &&
		a.PriorityClassName == b.PriorityClassName && a.CrossNamespaceAffinity == b.CrossNamespaceAffinity &&
		same(a.Charge, b.Charge)
}

func sameReference(a, b *v1alpha1.Reference) bool {
	return a == b || a != nil && b != nil && *a == *b
}
