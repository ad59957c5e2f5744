package quota

import (
	"cmp"
	"math"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/mooring-vm/mooring/api/v1alpha1"
)

// grant says whether KubeVirt can create the target pod of a reservation, or has done so.
type grant struct {
	granted         bool
	reason, message string
}

// Reasons of the conditions Granted and Waiting.
const (
	reasonInForce         = "InForce"
	reasonObserveMode     = "ObserveMode"
	reasonWaitingForQuota = "WaitingForQuota"
	reasonWaitingForGuard = "WaitingForGuard"
	reasonWaitingForSlot  = "WaitingForSlot"
	reasonWaitingForShare = "WaitingForShare"
	reasonQuotaFull       = "QuotaFull"
	reasonRetryPending    = "RetryPending"
	reasonReleasing       = "Releasing"
)

// WaitingReasons returns the reasons of the condition Waiting while a quota rejects the target pod.
func WaitingReasons() []string {
	return []string{reasonObserveMode, reasonQuotaFull, reasonRetryPending, reasonWaitingForGuard,
		reasonWaitingForQuota, reasonWaitingForShare, reasonWaitingForSlot}
}

// grant compares a reservation with status.hard and status.used of every quota that charges it.
func (p *planner) grant(d draft) grant {
	if d.phase == v1alpha1.PhaseReleasing {
		return grant{false, reasonReleasing, "the migration has ended"}
	}
	var lacking []string
	for _, a := range p.accounts {
		held := a.holds(d.after)
		if held && !p.pods.started(d.after) &&
			a.slots.free(p.pods.sourceNode(d.after)) == 0 {
			return grant{false, reasonWaitingForSlot, a.slots.String()}
		}
		if held && len(a.lacksShare[d.after.Name]) > 0 {
			return grant{false, reasonWaitingForShare, a.describeShareShortage(d.after.Name)}
		}
		if held && !p.inForce(a, d.after.Name) {
			if p.o.Observe {
				return grant{false, reasonObserveMode,
					"mode observe raises no ResourceQuota: mode enforce would"}
			}
			if w, _ := a.quotaWrite(p.o); p.Unguarded != "" && w.raises(a.Quota) {
				return grant{false, reasonWaitingForGuard, p.Unguarded}
			}
			return grant{false, reasonWaitingForQuota,
				"status.hard of ResourceQuota " + a.Quota.Name + " does not include it yet"}
		}
		if short := a.shortage(d.after, p.pods.target(d.after.Name)); len(short) > 0 {
			lacking = append(lacking, a.describeShortage(short))
		}
	}
	if len(lacking) > 0 {
		return grant{false, reasonQuotaFull, strings.Join(lacking, "; ")}
	}
	return grant{true, reasonInForce, "status.hard of every ResourceQuota includes it"}
}

// shortage returns the amounts that a quota lacks for the pods of a reservation that it does not
// charge yet. An opted-out quota can lack amounts, too.
func (a Account) shortage(r *v1alpha1.MigrationReservation, target family) corev1.ResourceList {
	short := corev1.ResourceList{}
	for name, q := range a.outstandingOf(r, target) {
		hard, limited := a.hard()[name]
		if !limited {
			continue
		}
		q.Add(a.Quota.Status.Used[name])
		q.Sub(hard)
		short[name] = q
	}
	return positive(short)
}

func (a Account) describeShortage(short corev1.ResourceList) string {
	text := "ResourceQuota " + a.Quota.Name
	if a.OptedOut {
		text += ", which has opted out,"
	}
	return text + " lacks " + FormatAmounts(short)
}

// outstandingOf returns the charge of a reservation to the quota for pods not charged yet.
func (a Account) outstandingOf(
	r *v1alpha1.MigrationReservation, target family,
) corev1.ResourceList {
	sum := corev1.ResourceList{}
	for _, pod := range r.Spec.Pods {
		if under, err := FallsUnder(pod, a.Quota); err == nil && under {
			add(sum, target.outstanding(pod.Role, restrictTo(pod.Charge, a.Base)))
		}
	}
	return sum
}

// holds reports whether the reservation is charged to the quota.
func (a Account) holds(r *v1alpha1.MigrationReservation) bool {
	return slices.ContainsFunc(a.Reservations, func(h *v1alpha1.MigrationReservation) bool {
		return h.Name == r.Name
	})
}

// inForce reports whether status.hard, which admission compares with, has room for a reservation
// beside all earlier ones: first the granted and ended ones, then the older ones.
func (p *planner) inForce(a Account, holder string) bool {
	order := slices.SortedStableFunc(slices.Values(a.Reservations), compareGrantOrder)
	last := slices.IndexFunc(order, func(r *v1alpha1.MigrationReservation) bool {
		return r.Name == holder
	})
	reserved, _ := p.pods.reserved(a, a.withinShare(order[:last+1]))
	return a.hardCovers(a.desired(reserved))
}

// compareGrantOrder orders reservations by granting: granted and ended ones first, then by age.
func compareGrantOrder(a, b *v1alpha1.MigrationReservation) int {
	late := func(r *v1alpha1.MigrationReservation) int {
		if r.Status.Phase == v1alpha1.PhaseReleasing ||
			meta.IsStatusConditionTrue(r.Status.Conditions, v1alpha1.ConditionGranted) {
			return 0
		}
		return 1
	}
	created := func(r *v1alpha1.MigrationReservation) int64 {
		if r.CreationTimestamp.IsZero() { // not created yet
			return math.MaxInt64
		}
		return r.CreationTimestamp.Unix()
	}
	return cmp.Or(cmp.Compare(late(a), late(b)), cmp.Compare(created(a), created(b)),
		cmp.Compare(a.Name, b.Name))
}

// hardCovers reports whether status.hard is at least this amount.
func (a Account) hardCovers(hard corev1.ResourceList) bool {
	for name, want := range hard {
		if is, ok := a.Quota.Status.Hard[name]; !ok || is.Cmp(want) < 0 {
			return false
		}
	}
	return true
}
