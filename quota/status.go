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
	w, ours := a.quotaWrite(p.o)
	if !ours {
		return
	}
	if len(a.Reservations) > 0 && !p.o.Observe {
		p.retry(a, &w)
	}
	if !w.changes(a.Quota) || a.Quota.DeletionTimestamp != nil {
		return
	}
	if !p.Live && (w.lowers(a.Quota) || len(a.Reservations) == 0) {
		p.needsLive = true
		return
	}
	if p.Unguarded != "" && !p.o.Observe && a.reservesPods() && w.raises(a.Quota) {
		p.proveGuard = true
		return
	}
	p.quotaWrites = append(p.quotaWrites, w)
}

// planStatus plans the write of a reservation's status.
func (p *planner) planStatus(d draft) {
	r := d.after.DeepCopy()
	g := p.grant(d)
	r.Status.Phase, r.Status.Target = d.phase, d.target
	switch {
	case d.phase != "":
	case p.pods.target(r.Name).charged(v1alpha1.RoleLauncher):
		r.Status.Phase = v1alpha1.PhaseCharged
	case g.granted:
		r.Status.Phase = v1alpha1.PhaseGranted
	default:
		r.Status.Phase = v1alpha1.PhaseReserved
	}
	p.setConditions(r, g, d.rejected)
	p.count(r, d.rejected)
	p.checkAgain(d, g)
	if d.before == nil {
		return // create the object first
	}
	// Mode enforce grants a new reservation at once, and then writes the status.
	soon := g.reason == reasonWaitingForQuota || g.reason == reasonWaitingForGuard
	unstated := !d.rejected && soon && d.before.Status.Phase == ""
	if !unstated && !equality.Semantic.DeepEqual(d.before.Status, r.Status) {
		p.statusWrites = append(p.statusWrites, UpdateStatus{r})
	}
	p.reportProgress(d.before, r, g)
}

// count counts a reservation, and its wait.
func (p *planner) count(r *v1alpha1.MigrationReservation, rejected bool) {
	if BlocksEdits(r) {
		p.reserved++
	}
	c := meta.FindStatusCondition(r.Status.Conditions, v1alpha1.ConditionWaiting)
	if rejected && c != nil {
		p.waits = append(p.waits, Wait{Reason: c.Reason, Since: c.LastTransitionTime.Time})
	}
}

// reportProgress reports that a reservation was granted, or that a quota lacks amounts for it.
func (p *planner) reportProgress(before, r *v1alpha1.MigrationReservation, g grant) {
	unseen := r.Status.Phase == v1alpha1.PhaseCharged && beforeGrant(before.Status.Phase)
	if r.Status.Phase == v1alpha1.PhaseGranted && before.Status.Phase != v1alpha1.PhaseGranted ||
		unseen {
		p.report(r, corev1.EventTypeNormal, ReasonGranted, "every quota has room for %s more",
			p.formatLimited(total(r)))
	}
	if full(r) && !full(before) {
		p.report(r, corev1.EventTypeWarning, ReasonWaiting,
			"a quota rejects the target pod; %s; the controller retries", g.message)
	}
}

// beforeGrant reports whether a reservation has never been granted. KubeVirt may create the target
// pod before the controller sees the grant.
func beforeGrant(phase v1alpha1.Phase) bool {
	return phase == "" || phase == v1alpha1.PhaseReserved
}

// full reports whether a rejected target pod waits for a quota that other pods have filled.
func full(r *v1alpha1.MigrationReservation) bool {
	c := meta.FindStatusCondition(r.Status.Conditions, v1alpha1.ConditionWaiting)
	return c != nil && c.Status == metav1.ConditionTrue && c.Reason == reasonQuotaFull
}

// setConditions sets Granted, and Waiting for a reservation whose target pod was ever rejected.
func (p *planner) setConditions(r *v1alpha1.MigrationReservation, g grant, rejected bool) {
	p.setCondition(r, v1alpha1.ConditionGranted, g.granted, g.reason, g.message)
	switch {
	case rejected && g.granted:
		p.setCondition(r, v1alpha1.ConditionWaiting, true, reasonRetryPending,
			"the quotas have room for the target pod, and KubeVirt has not retried yet")
	case rejected:
		p.setCondition(r, v1alpha1.ConditionWaiting, true, g.reason, g.message)
	case meta.FindStatusCondition(r.Status.Conditions, v1alpha1.ConditionWaiting) != nil:
		p.setCondition(r, v1alpha1.ConditionWaiting, false, g.reason,
			"no quota rejects the target pod")
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
		if excess := a.excess(); !a.reservesPods() && len(excess) > 0 {
			all = append(all, Overrun{a.Quota.Name, excess})
		}
	}
	return all
}

// excess returns the use by pods beyond the base and the room of stored pods.
func (a Account) excess() corev1.ResourceList {
	out := positive(minus(restrictTo(a.Quota.Status.Used, a.Base), a.Desired))
	maps.DeleteFunc(out, func(name corev1.ResourceName, _ resource.Quantity) bool {
		return !ChargedForPods(name)
	})
	return out
}

// nextPlan returns the time at which the plan changes without any event.
func (p *planner) nextPlan() time.Time {
	at := earlier(p.nextRetry, p.openUntil)
	if ends := p.pods.firstChargeEnd(); !ends.IsZero() && len(p.drafts) > 0 {
		at = earlier(at, ends.Add(time.Second)) // at its end the pod is still charged
	}
	return at
}
