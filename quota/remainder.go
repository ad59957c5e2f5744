package quota

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mooring-vm/mooring/api/v1alpha1"
)

// finished reports whether an existing reservation can go, because the awaited pod is no longer
// charged.
func (p *planner) finished(e entry) bool {
	if e.outcome() == running && !p.vmiGone(e) {
		return false
	}
	left := p.remainder(e)
	return left == nothingCharged || left == storedPodCharged && !p.countsStoredPods(e.reservation)
}

// remainder returns the charge that remains beyond the base. One of the two pods is within the
// base, so the smaller charge counts. After a success that is the source, which ends, and after a
// failure the target. Both count here because a cache may have shown a wrong source. If the VM is
// gone before an outcome, either pod may stay, so both have to end.
func (p *planner) remainder(e entry) remainder {
	target := nothingCharged
	if launcher := e.target.launcher; launcher != nil {
		target = p.pods.remainderOf(launcher.UID)
	}
	if ended := e.outcome() == succeeded || e.outcome() == failed; !ended && p.vmiGone(e) {
		return max(p.sourceRemainder(e), target)
	}
	return min(p.sourceRemainder(e), target)
}

// storedPods returns the ended pods of the source that quotas charge count/pods for, or of the
// target if the source has none. The reservation keeps room for these pods.
func (p *planner) storedPods(e entry) []v1alpha1.ReservedPod {
	if source := e.reservation.Spec.Source; source != nil &&
		p.sourceRemainder(e) == storedPodCharged {
		return p.pods.endedPods(source.UID)
	}
	if target := e.target.launcher; target != nil {
		return p.pods.endedPods(target.UID)
	}
	pod := e.reservation.Spec.Pods[0]
	pod.Charge = corev1.ResourceList{countPods: one()}
	return []v1alpha1.ReservedPod{pod}
}

// sourceRemainder returns the remaining charge of the source pod. Without a known source, every
// launcher of the VMI except the target may be the source.
func (p *planner) sourceRemainder(e entry) remainder {
	if e.reservation.Spec.Source != nil {
		return p.pods.remainderOf(e.reservation.Spec.Source.UID)
	}
	w := nothingCharged
	for _, pod := range p.pods.ofVMI[e.reservation.Spec.VMI.UID] {
		if e.target.launcher == nil || pod.UID != e.target.launcher.UID {
			w = max(w, p.pods.remainderOf(pod.UID))
		}
	}
	return w
}

// countsStoredPods reports whether a quota with count/pods charges the reserved launcher.
func (p *planner) countsStoredPods(r *v1alpha1.MigrationReservation) bool {
	return slices.ContainsFunc(p.Quotas, func(q *corev1.ResourceQuota) bool {
		if _, counted := q.Spec.Hard[countPods]; !counted || optedOut(q, p.o) {
			return false
		}
		under, err := FallsUnder(r.Spec.Pods[0], q)
		return err == nil && under
	})
}

// limitedByAnyQuota reports whether some quota charges the reserved pods.
func (p *planner) limitedByAnyQuota(r *v1alpha1.MigrationReservation) bool {
	return slices.ContainsFunc(p.Quotas, func(q *corev1.ResourceQuota) bool {
		return !optedOut(q, p.o) &&
			slices.ContainsFunc(r.Spec.Pods, func(pod v1alpha1.ReservedPod) bool {
				under, err := FallsUnder(pod, q)
				return err == nil && under
			})
	})
}

// updateCharge sets the best known charge of the target pods. In this order: the real target pods,
// the webhook's record, or the source pod with the estimate of the target on top.
func (p *planner) updateCharge(r *v1alpha1.MigrationReservation, e entry, source *corev1.Pod) {
	present := p.pods.family(source).reservedPods()
	if known := e.target.reservedPods(); len(known) > 0 && known[0].Role == v1alpha1.RoleLauncher {
		r.Spec.Pods, r.Spec.From = merge(r.Spec.Pods, known), v1alpha1.Rendered
		return
	}
	if seen := p.webhookCharge(r); len(seen) > 0 && e.rejected() {
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
		raiseToEstimate(r, *estimate)
	}
}

// webhookCharge returns the webhook's record of the target pod. Callers use it only while KubeVirt
// reports a rejection as well, because clients other than the API server can reach the webhook.
func (p *planner) webhookCharge(r *v1alpha1.MigrationReservation) []v1alpha1.ReservedPod {
	pod, err := Rendered(r)
	if err != nil {
		p.faults = append(p.faults, Fault{"MigrationReservation", r.Name, err})
	}
	if pod == nil {
		return nil
	}
	return []v1alpha1.ReservedPod{*pod}
}

// merge replaces pods by other pods of the same role.
func merge(pods, by []v1alpha1.ReservedPod) []v1alpha1.ReservedPod {
	out := slices.Clone(by)
	for _, pod := range pods {
		if !slices.ContainsFunc(by, func(b v1alpha1.ReservedPod) bool {
			return b.Role == pod.Role
		}) {
			out = append(out, pod)
		}
	}
	slices.SortFunc(out, func(a, b v1alpha1.ReservedPod) int {
		return roleOrder(a.Role) - roleOrder(b.Role)
	})
	return out
}

func roleOrder(role v1alpha1.PodRole) int {
	if role == v1alpha1.RoleLauncher {
		return 0
	}
	return 1
}

// vmiGone reports whether the VMI is gone or its namespace is in deletion.
func (p *planner) vmiGone(e entry) bool { return e.vmi == "" || p.terminating() }

func (p *planner) existingVMI(vmi types.UID) types.UID {
	if slices.ContainsFunc(p.VMIs, func(v VMI) bool { return v.UID == vmi }) {
		return vmi
	}
	return ""
}

func (p *planner) terminating() bool {
	return p.Namespace != nil && p.Namespace.DeletionTimestamp != nil
}

// total returns the sum of a reservation's charges.
func total(r *v1alpha1.MigrationReservation) corev1.ResourceList { return sumOf(r.Spec.Pods) }

// sumOf returns the charge of pods in all resources.
func sumOf(pods []v1alpha1.ReservedPod) corev1.ResourceList {
	sum := corev1.ResourceList{}
	for _, pod := range pods {
		add(sum, pod.Charge)
	}
	return sum
}

// sameReservation reports whether metadata and spec are equal, regardless of how quantities are
// written.
func sameReservation(a, b *v1alpha1.MigrationReservation) bool {
	return slices.Equal(a.Finalizers, b.Finalizers) && a.Spec.From == b.Spec.From &&
		sameReference(a.Spec.Source, b.Spec.Source) &&
		slices.EqualFunc(a.Spec.Pods, b.Spec.Pods, samePod)
}

func samePod(a, b v1alpha1.ReservedPod) bool {
	return a.Role == b.Role && a.BestEffort == b.BestEffort && a.Terminating == b.Terminating &&
		a.PriorityClassName == b.PriorityClassName &&
		a.CrossNamespaceAffinity == b.CrossNamespaceAffinity &&
		equalLists(a.Charge, b.Charge)
}

func sameReference(a, b *v1alpha1.Reference) bool {
	return a == b || a != nil && b != nil && *a == *b
}
