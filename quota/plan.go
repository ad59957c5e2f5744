package quota

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mooring-vm/mooring/api/v1alpha1"
)

// MakePlan plans what is to be written in a namespace. It is pure, and may be called
// concurrently: nothing of the snapshot is changed. Carried out, and planned for anew from
// what then is, the plan is empty, apart from what states it tells.
func MakePlan(s Snapshot, o Options) Plan {
	p := newPlanner(s, o)
	all := p.entries()
	for _, e := range all {
		p.decide(e, all)
	}
	p.settle()
	return p.plan()
}

func newPlanner(s Snapshot, o Options) *planner {
	p := &planner{Snapshot: s, o: o.WithDefaults(), pods: newPods(s), vmis: map[string]types.UID{}}
	for _, v := range s.VMIs {
		p.vmis[v.Name] = v.UID
	}
	return p
}

// planner makes one plan.
type planner struct {
	Snapshot
	o    Options
	pods pods
	vmis map[string]types.UID

	drafts   []draft
	accounts []Account
	faults   []Fault

	written []Action // creates and updates
	ended   []Action // states with which a reservation counts no more
	stated  []Action // the others
	dropped []Action
	quotas  []Action
	reports []Report
	live    bool
}

// draft is a reservation as it is to be, and how it was.
type draft struct {
	was, is *v1alpha1.MigrationReservation // was is nil for a new one
	phase   v1alpha1.Phase                 // empty: as far as quotas and target pod say
	target  *v1alpha1.Reference
}

// plan puts the actions into their order: what is reserved, then what is expired or
// released, then the quotas, which follow from it, and last what only tells.
func (p *planner) plan() Plan {
	needed := slices.Concat(p.written, p.ended, p.dropped, p.quotas)
	return Plan{
		Actions: slices.Concat(needed, p.stated, p.annotate()), Needed: len(needed),
		Reports: p.reports, Overruns: p.overruns(), Faults: p.faults, Live: p.live, Again: p.wake(),
	}
}

// decide drafts what becomes of a migration's reservation.
func (p *planner) decide(e entry, all []entry) {
	switch {
	case e.was == nil:
		p.begin(e, all)
	case p.over(e):
		p.release(e)
	case e.was.Status.Phase == v1alpha1.PhaseExpired:
		p.keep(draft{was: e.was, is: e.was, phase: v1alpha1.PhaseExpired, target: reference(e.target.launcher)})
	case e.outcome() != underWay || p.vmiGone(e):
		p.wait(e)
	case p.expired(e):
		p.expire(e)
	default:
		p.follow(e, all)
	}
}

// begin reserves for a migration, where there is a quota that its pods fall under.
func (p *planner) begin(e entry, all []entry) {
	if !e.wants() || p.terminating() {
		return
	}
	source := p.source(e, all)
	r := &v1alpha1.MigrationReservation{}
	r.Name, r.Namespace, r.Finalizers = e.name, e.migration.Namespace, []string{v1alpha1.Finalizer}
	r.Spec.Migration = v1alpha1.Reference{Name: e.migration.Name, UID: e.migration.UID}
	r.Spec.VMI = v1alpha1.Reference{Name: e.migration.Spec.VMIName, UID: e.vmi}
	r.Spec.Source = reference(source)
	p.charge(r, e, source)
	if len(r.Spec.Pods) == 0 || !p.underAny(r) {
		return
	}
	p.deadline(r, e)
	p.written = append(p.written, CreateReservation{r})
	p.tell(r, corev1.EventTypeNormal, ReasonReserved, "quotas are to allow %s more (%s)", p.shown(total(r)), r.Spec.From)
	p.keep(draft{is: r})
}

// follow keeps a reservation true: the charge, the source while no target pod has come of
// it, and the deadline.
func (p *planner) follow(e entry, all []entry) {
	r := e.was.DeepCopy()
	source := p.source(e, all)
	if source != nil && (e.target.launcher == nil || p.weighSource(e) != weighsAll) {
		r.Spec.Source = reference(source)
	}
	p.charge(r, e, source)
	p.deadline(r, e)
	if grown := p.limited(positive(minus(total(r), total(e.was)))); len(grown) > 0 {
		needs := "needs"
		if r.Spec.From == v1alpha1.Computed {
			needs = "is rejected, and likely to need"
		}
		p.tell(r, corev1.EventTypeNormal, ReasonGrown, "the target pod %s %s more than was reserved", needs, show(grown))
	}
	p.update(e.was, r)
	p.keep(draft{was: e.was, is: r, target: reference(e.target.launcher)})
}

// wait holds the reservation of a migration that has ended until the pod that has to go is
// not charged any more. A pod that has ended is stored on, and counted as such.
func (p *planner) wait(e entry) {
	r := e.was.DeepCopy()
	if p.remains(e) == weighsStored {
		stored(r)
	}
	if sameReservation(e.was, r) || p.Live {
		p.update(e.was, r)
	} else {
		r, p.live = e.was, true
	}
	target := reference(e.target.launcher)
	if target == nil {
		target = e.was.Status.Target
	}
	p.keep(draft{was: e.was, is: r, phase: v1alpha1.PhaseReleasing, target: target})
}

// stored leaves of a reservation what a pod is charged that has ended and is still stored.
func stored(r *v1alpha1.MigrationReservation) {
	r.Spec.Pods = r.Spec.Pods[:1]
	r.Spec.Pods[0].Charge = corev1.ResourceList{countPods: one()}
}

// expire lets go of what is reserved for a migration that a quota rejects for too long.
func (p *planner) expire(e entry) {
	if !p.Live {
		p.live = true
		p.keep(draft{was: e.was, is: e.was})
		return
	}
	p.tell(e.was, corev1.EventTypeWarning, ReasonTimedOut,
		"a quota still rejects the target pod; %s are not reserved any more, and not again for this migration", p.shown(total(e.was)))
	p.keep(draft{was: e.was, is: e.was, phase: v1alpha1.PhaseExpired})
}

// release drops a reservation.
func (p *planner) release(e entry) {
	if !p.Live {
		p.live = true
		p.keep(draft{was: e.was, is: e.was, phase: v1alpha1.PhaseReleasing, target: e.was.Status.Target})
		return
	}
	why := map[outcome]string{succeeded: "the source pod is not charged any more", failed: "the target pod is not charged",
		gone: "the migration is gone", underWay: "the VM is gone"}[e.outcome()]
	p.dropped = append(p.dropped, ReleaseReservation{e.was, why})
	p.tell(e.was, corev1.EventTypeNormal, ReasonReleased, "%s: %s are not reserved any more", why, p.shown(total(e.was)))
}

func (p *planner) update(was, is *v1alpha1.MigrationReservation) {
	if is.DeletionTimestamp == nil && !slices.Contains(is.Finalizers, v1alpha1.Finalizer) {
		is.Finalizers = append(is.Finalizers, v1alpha1.Finalizer)
	}
	if !sameReservation(was, is) {
		p.written = append(p.written, UpdateReservation{is})
	}
}

func (p *planner) keep(d draft) { p.drafts = append(p.drafts, d) }

func (p *planner) tell(r *v1alpha1.MigrationReservation, kind, reason, format string, args ...any) {
	p.reports = append(p.reports, Report{
		Type: kind, Reason: reason, Message: fmt.Sprintf(format, args...), Reservation: r.Name, Migration: r.Spec.Migration,
	})
}

// shown is a charge for people: what of it some quota of the namespace has.
func (p *planner) shown(charge corev1.ResourceList) string { return show(p.limited(charge)) }

// limited is what of a charge some quota of the namespace has.
func (p *planner) limited(charge corev1.ResourceList) corev1.ResourceList {
	in := corev1.ResourceList{}
	for _, q := range p.Quotas {
		maps.Copy(in, q.Spec.Hard)
	}
	return only(charge, in)
}
