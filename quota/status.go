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

// applyDrafts computes quotas and reservation statuses from the drafts.
func (p *planner) applyDrafts() {
	ledger := make([]*v1alpha1.MigrationReservation, len(p.drafts))
	for i, d := range p.drafts {
		r := d.after.DeepCopy()
		if d.phase != "" {
			r.Status.Phase = d.phase
		}
		ledger[i] = r
	}
	slices.SortFunc(ledger, func(a, b *v1alpha1.MigrationReservation) int {
		return cmp.Compare(a.Name, b.Name)
	})
	var faults []Fault
	p.accounts, faults = p.pods.accounts(p.Snapshot, p.o, ledger)
	p.faults = append(p.faults, faults...)
	for _, a := range p.accounts {
		p.planQuota(a)
	}
	for _, d := range p.drafts {
		p.planStatus(d)
	}
}

// planQuota plans the write of a quota. Without a live snapshot it lowers no quota, because caches
// may lack a reservation.
func (p *planner) planQuota(a Account) {
	w, changed := a.quotaWrite(p.o)
	if !changed || a.Quota.DeletionTimestamp != nil {
		return
	}
	if !p.Live && (w.lowers(a.Quota) || len(a.Reservations) == 0) {
		p.needsLive = true
		return
	}
	p.quotaWrites = append(p.quotaWrites, w)
}

// planStatus plans the write of a reservation's status.
func (p *planner) planStatus(d draft) {
	r := d.after.DeepCopy()
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
	p.setConditions(r, granted)
	if d.before == nil {
		return // create the object first
	}
	// Mode enforce grants a new reservation at once, and then writes the status.
	unstated := !p.o.Observe && d.before.Status.Phase == "" && r.Status.Phase == v1alpha1.PhaseReserved
	switch changed := !unstated && !equality.Semantic.DeepEqual(d.before.Status, r.Status); {
	case changed && IsActive(d.before) != IsActive(r):
		p.expirations = append(p.expirations, UpdateStatus{r})
	case changed:
		p.statusWrites = append(p.statusWrites, UpdateStatus{r})
	}
	if r.Status.Phase == v1alpha1.PhaseGranted && d.before.Status.Phase != v1alpha1.PhaseGranted {
		p.report(r, corev1.EventTypeNormal, ReasonGranted, "every quota has room for %s more",
			p.formatLimited(total(r)))
	}
}

// granted reports whether a reservation is in force in every quota that charges it.
func (p *planner) granted(r *v1alpha1.MigrationReservation) bool {
	for _, a := range p.accounts {
		holds := slices.ContainsFunc(a.Reservations, func(h *v1alpha1.MigrationReservation) bool {
			return h.Name == r.Name
		})
		if holds && !a.inForce(r.Name) {
			return false
		}
	}
	return true
}

func (p *planner) setConditions(r *v1alpha1.MigrationReservation, granted bool) {
	expired := r.Status.Phase == v1alpha1.PhaseExpired
	reason, message := "WaitingForQuota", "status.hard of a ResourceQuota does not include it yet"
	switch {
	case expired:
		reason, message = "Expired", "the deadline has passed without a target pod"
	case granted:
		reason, message = "InForce", "status.hard of every ResourceQuota includes it"
	case p.o.Observe:
		reason, message = "ObserveMode", "mode observe raises no ResourceQuota: mode enforce would"
	}
	p.setCondition(r, v1alpha1.ConditionGranted, granted && !expired, reason, message)
	if expired {
		p.setCondition(r, v1alpha1.ConditionTimedOut, true, "RejectedByQuota",
			"a quota rejected the target pod until the deadline")
	}
}

func (p *planner) setCondition(
	r *v1alpha1.MigrationReservation, kind string, holds bool, reason, message string,
) {
	status := metav1.ConditionFalse
	if holds {
		status = metav1.ConditionTrue
	}
	meta.SetStatusCondition(&r.Status.Conditions, metav1.Condition{
		Type: kind, Status: status, Reason: reason, Message: message,
		LastTransitionTime: metav1.Time{Time: p.Now.Truncate(time.Second)},
	})
}

// overruns returns the quotas with more use than base and without reservations.
func (p *planner) overruns() []Overrun {
	var all []Overrun
	for _, a := range p.accounts {
		if excess := a.excess(); len(a.Reservations) == 0 && len(excess) > 0 {
			all = append(all, Overrun{a.Quota.Name, excess})
		}
	}
	return all
}

// excess returns the use by pods beyond the base.
func (a Account) excess() corev1.ResourceList {
	out := positive(minus(restrictTo(a.Quota.Status.Used, a.Base), a.Base))
	maps.DeleteFunc(out, func(name corev1.ResourceName, _ resource.Quantity) bool {
		return !ChargedForPods(name)
	})
	return out
}

// nextPlan returns the time at which the plan changes without any event.
func (p *planner) nextPlan() time.Time {
	var at time.Time
	for _, d := range p.drafts {
		if deadline := d.after.Spec.Deadline; deadline != nil && d.target == nil &&
			deadline.After(p.Now) && d.phase == "" {
			at = earlier(at, deadline.Time)
		}
	}
	if ends := p.pods.firstChargeEnd(); !ends.IsZero() && len(p.drafts) > 0 {
		at = earlier(at, ends.Add(time.Second)) // at its end the pod is still charged
	}
	return at
}
