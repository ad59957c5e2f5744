package quota

import (
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mooring-vm/mooring/api/policy"
	"github.com/mooring-vm/mooring/api/v1alpha1"
)

// MakePlan plans the writes for a namespace. It is pure and may be called concurrently. After all
// writes of a plan, a new plan has no actions; it still lists overruns and faults.
func MakePlan(s Snapshot, o Options) Plan {
	p := newPlanner(s, o)
	all := p.entries()
	for _, e := range all {
		p.planReservation(e, all)
	}
	p.applyDrafts()
	return p.plan()
}

func newPlanner(s Snapshot, o Options) *planner {
	p := &planner{Snapshot: s, o: o.WithDefaults(), pods: newPods(s), vmis: map[string]types.UID{}}
	for _, v := range s.VMIs {
		p.vmis[v.Name] = v.UID
	}
	if p.openUntil = p.open(); !p.openUntil.IsZero() {
		p.Unguarded = ""
	}
	return p
}

// planner computes one plan.
type planner struct {
	Snapshot
	o    Options
	pods pods
	vmis map[string]types.UID

	drafts   []draft
	accounts []Account
	faults   []Fault

	reservationWrites []Action // creates and updates
	statusWrites      []Action
	releases          []Action
	quotaWrites       []WriteQuota
	reports           []Report
	needsLive         bool
	proveGuard        bool
	nextRetry         time.Time
	openUntil         time.Time
	reserved          int
	waits             []Wait
}

// draft is a reservation before and after the plan.
type draft struct {
	before, after *v1alpha1.MigrationReservation // before is nil for a new one
	phase         v1alpha1.Phase                 // empty: derived from quotas and target pod
	target        *v1alpha1.Reference
	rejected      bool // KubeVirt reports that a quota rejects the target pod
}

// plan orders the actions: reservations and releases, then the quotas that follow from them, and
// finally statuses and annotations. The webhook for pods works before the first quota is raised,
// and until the last one is lowered.
func (p *planner) plan() Plan {
	guard, unguard := p.labelNamespace()
	needed := slices.Concat(p.reservationWrites, p.releases, guard, p.quotaActions(), unguard)
	return Plan{
		Actions: slices.Concat(needed, p.statusWrites, p.annotate()), Required: len(needed),
		Withheld: p.withheld(), Reports: p.reports, Overruns: p.overruns(), Faults: p.faults,
		Reserved: p.reserved, Waits: p.waits, Open: p.openUntil,
		NeedsLive: p.needsLive, ProveGuard: p.proveGuard, NextPlan: p.nextPlan(),
	}
}

// planReservation drafts the reservation of a migration.
func (p *planner) planReservation(e entry, all []entry) {
	switch {
	case e.reservation == nil:
		p.reserve(e, all)
	case p.finished(e):
		p.release(e)
	case e.outcome() != running || p.vmiGone(e):
		p.awaitPodEnd(e)
	default:
		p.refresh(e, all)
	}
}

// reserve creates a reservation if a quota charges the migration's pods.
func (p *planner) reserve(e entry, all []entry) {
	if !e.needsReservation() || p.terminating() {
		return
	}
	source := p.source(e, all)
	r := &v1alpha1.MigrationReservation{}
	r.Name, r.Namespace = e.name, e.migration.Namespace
	p.addFinalizer(r)
	r.Spec.Migration = v1alpha1.Reference{Name: e.migration.Name, UID: e.migration.UID}
	r.Spec.VMI = v1alpha1.Reference{Name: e.migration.Spec.VMIName, UID: e.vmi}
	r.Spec.Source = reference(source)
	p.updateCharge(r, e, source)
	if len(r.Spec.Pods) == 0 || !p.limitedByAnyQuota(r) {
		return
	}
	p.reservationWrites = append(p.reservationWrites, CreateReservation{r})
	p.report(r, corev1.EventTypeNormal, ReasonReserved, "reserving %s in ResourceQuotas (%s)",
		p.formatLimited(total(r)), r.Spec.From)
	p.addDraft(draft{after: r, rejected: e.rejected()})
}

// refresh updates a reservation: its charge, and its source until the target pod exists.
func (p *planner) refresh(e entry, all []entry) {
	r := e.reservation.DeepCopy()
	source := p.source(e, all)
	if source != nil && (e.target.launcher == nil || p.sourceRemainder(e) != fullyCharged) {
		r.Spec.Source = reference(source)
	}
	p.updateCharge(r, e, source)
	if grown := p.limitedByQuotas(positive(minus(total(r), total(e.reservation)))); len(grown) > 0 {
		needs := "needs"
		if r.Spec.From == v1alpha1.Computed {
			needs = "was rejected and probably needs"
		}
		p.report(r, corev1.EventTypeNormal, ReasonGrown, "the target pod %s %s more than reserved",
			needs, FormatAmounts(grown))
		p.reports[len(p.reports)-1].Growth = p.growth(r, source)
	}
	p.writeReservation(e.reservation, r)
	p.addDraft(draft{before: e.reservation, after: r, target: reference(e.target.launcher),
		rejected: e.rejected()})
}

// awaitPodEnd keeps the reservation of an ended migration while the quota still charges the pod
// that goes: the source after a success, the target after a failure. A pod that has ended and still
// exists as an object is charged in count/pods only, so the reservation keeps only that.
func (p *planner) awaitPodEnd(e entry) {
	r := e.reservation.DeepCopy()
	if p.remainder(e) == storedPodCharged {
		r.Spec.Pods = p.storedPods(e)
	}
	if sameReservation(e.reservation, r) || p.Live {
		p.writeReservation(e.reservation, r)
	} else {
		r, p.needsLive = e.reservation, true
	}
	target := reference(e.target.launcher)
	if target == nil {
		target = e.reservation.Status.Target
	}
	p.addDraft(draft{before: e.reservation, after: r, phase: v1alpha1.PhaseReleasing,
		target: target})
}

// release deletes a reservation.
func (p *planner) release(e entry) {
	if !p.Live {
		p.needsLive = true
		p.addDraft(draft{before: e.reservation, after: e.reservation,
			phase: v1alpha1.PhaseReleasing, target: e.reservation.Status.Target})
		return
	}
	why := map[outcome]string{
		succeeded: "the source pod is no longer charged", failed: "the target pod is not charged",
		unknownOutcome: "the migration is gone", running: "the VM is gone",
	}[e.outcome()]
	p.releases = append(p.releases, ReleaseReservation{e.reservation, why})
	p.report(e.reservation, corev1.EventTypeNormal, ReasonReleased, "%s: %s released",
		why, p.formatLimited(total(e.reservation)))
}

func (p *planner) writeReservation(was, is *v1alpha1.MigrationReservation) {
	p.addFinalizer(is)
	if !sameReservation(was, is) {
		p.reservationWrites = append(p.reservationWrites, UpdateReservation{is})
	}
}

func (p *planner) addDraft(d draft) { p.drafts = append(p.drafts, d) }

func (p *planner) report(
	r *v1alpha1.MigrationReservation, kind, reason, format string, args ...any,
) {
	if p.o.Observe {
		reason, format = wouldReason(reason), policy.Observing+format
	}
	p.reports = append(p.reports, Report{
		Type: kind, Reason: reason, Message: fmt.Sprintf(format, args...), Reservation: r.Name,
		Migration: r.Spec.Migration,
	})
}

// formatLimited formats the part of a charge that the namespace's quotas limit.
func (p *planner) formatLimited(charge corev1.ResourceList) string {
	return FormatAmounts(p.limitedByQuotas(charge))
}

// limitedByQuotas returns the part of a charge that the namespace's quotas limit.
func (p *planner) limitedByQuotas(charge corev1.ResourceList) corev1.ResourceList {
	in := corev1.ResourceList{}
	for _, q := range p.Quotas {
		maps.Copy(in, q.Spec.Hard)
	}
	return restrictTo(charge, in)
}
