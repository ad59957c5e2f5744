package quota

import (
	"cmp"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mooring-vm/mooring/api/v1alpha1"
)

// settle computes what follows from the drafts: quotas, and the reservations' states.
func (p *planner) settle() {
	ledger := make([]*v1alpha1.MigrationReservation, len(p.drafts))
	for i, d := range p.drafts {
		r := d.is.DeepCopy()
		if d.phase != "" {
			r.Status.Phase = d.phase
		}
		ledger[i] = r
	}
	slices.SortFunc(ledger, func(a, b *v1alpha1.MigrationReservation) int { return cmp.Compare(a.Name, b.Name) })
	var faults []Fault
	p.accounts, faults = p.pods.accounts(p.Snapshot, p.o, ledger)
	p.faults = append(p.faults, faults...)
	for _, a := range p.accounts {
		p.raise(a)
	}
	for _, d := range p.drafts {
		p.state(d)
	}
}

// raise plans the write of a quota. Without a live snapshot none is lowered: what caches do
// not show yet may be reserved.
func (p *planner) raise(a Account) {
	w, changed := a.write(p.o)
	if !changed || a.Quota.DeletionTimestamp != nil {
		return
	}
	if !p.Live && (w.lowers(a.Quota) || len(a.Holders) == 0) {
		p.live = true
		return
	}
	p.quotas = append(p.quotas, w)
}

// state plans the write of a reservation's status.
func (p *planner) state(d draft) {
	r := d.is.DeepCopy()
	granted := p.granted(r)
	r.Status.Phase, r.Status.Target = d.phase, d.target
	switch {
	case d.phase != "":
	case p.pods.target(r.Name).charged(v1alpha1.RoleLauncher):
		r.Status.Phase = v1alpha1.PhaseCharged
	case granted:
		r.Status.Phase = v1alpha1.PhaseGranted
	default:
		r.Status.Phase = v1alpha1.PhaseReserved
	}
	p.conditions(r, granted)
	if d.was == nil {
		return // it has to be created first
	}
	unstated := d.was.Status.Phase == "" && r.Status.Phase == v1alpha1.PhaseReserved
	switch changed := !unstated && !equality.Semantic.DeepEqual(d.was.Status, r.Status); {
	case changed && Holds(d.was) != Holds(r):
		p.ended = append(p.ended, UpdateStatus{r})
	case changed:
		p.stated = append(p.stated, UpdateStatus{r})
	}
	if r.Status.Phase == v1alpha1.PhaseGranted && d.was.Status.Phase != v1alpha1.PhaseGranted {
		p.tell(r, corev1.EventTypeNormal, ReasonGranted, "every quota allows %s more", p.shown(total(r)))
	}
}

// granted says whether a reservation is in force in every quota that it is held in.
func (p *planner) granted(r *v1alpha1.MigrationReservation) bool {
	for _, a := range p.accounts {
		holds := slices.ContainsFunc(a.Holders, func(h *v1alpha1.MigrationReservation) bool { return h.Name == r.Name })
		if holds && !a.inForce(r.Name) {
			return false
		}
	}
	return true
}

func (p *planner) conditions(r *v1alpha1.MigrationReservation, granted bool) {
	expired := r.Status.Phase == v1alpha1.PhaseExpired
	reason, message := "WaitingForQuota", "status.hard of a ResourceQuota does not have it yet"
	switch {
	case expired:
		reason, message = "Expired", "the deadline has passed without a target pod"
	case granted:
		reason, message = "InForce", "status.hard of every ResourceQuota has it"
	}
	p.condition(r, v1alpha1.ConditionGranted, granted && !expired, reason, message)
	if expired {
		p.condition(r, v1alpha1.ConditionTimedOut, true, "RejectedByQuota", "a quota rejected the target pod until the deadline")
	}
}

func (p *planner) condition(r *v1alpha1.MigrationReservation, kind string, holds bool, reason, message string) {
	status := metav1.ConditionFalse
	if holds {
		status = metav1.ConditionTrue
	}
	meta.SetStatusCondition(&r.Status.Conditions, metav1.Condition{
		Type: kind, Status: status, Reason: reason, Message: message,
		LastTransitionTime: metav1.Time{Time: p.Now.Truncate(time.Second)},
	})
}

// overruns are the quotas of which more is used than they allow, with nothing reserved.
func (p *planner) overruns() []Overrun {
	var all []Overrun
	for _, a := range p.accounts {
		if excess := a.excess(); len(a.Holders) == 0 && len(excess) > 0 {
			all = append(all, Overrun{a.Quota.Name, excess})
		}
	}
	return all
}

// excess is what pods use beyond the base.
func (a Account) excess() corev1.ResourceList {
	out := positive(minus(only(a.Quota.Status.Used, a.Base), a.Base))
	maps.DeleteFunc(out, func(name corev1.ResourceName, _ resource.Quantity) bool { return !OfPods(name) })
	return out
}

// wake is when time alone changes the plan.
func (p *planner) wake() time.Time {
	var at time.Time
	for _, d := range p.drafts {
		if deadline := d.is.Spec.Deadline; deadline != nil && d.target == nil && deadline.After(p.Now) && d.phase == "" {
			at = earlier(at, deadline.Time)
		}
	}
	if ends := p.pods.ends(); !ends.IsZero() && len(p.drafts) > 0 {
		at = earlier(at, ends.Add(time.Second)) // at the moment itself the pod is still charged
	}
	return at
}
