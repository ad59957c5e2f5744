package quota

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/mooring-vm/mooring/api/v1alpha1"
)

// limitToShare marks the reservations without room in a strict maintenance share. They wait, and
// the quota gets no room for them. Reservations take the share in the order of grants. A migration
// larger than the whole free share blocks no later one. A target pod that exists takes its part in
// any case.
func (p pods) limitToShare(a *Account, free corev1.ResourceList) {
	if !a.Shares.Strict {
		return
	}
	a.lacksShare = map[string]corev1.ResourceList{}
	left := free.DeepCopy()
	for _, r := range slices.SortedStableFunc(slices.Values(a.Reservations), compareGrantOrder) {
		charge, _ := a.chargeOf(r) // an error would have ended account
		wants := restrictTo(charge, a.Shares.Maintenance)
		if !p.started(r) {
			if never := positive(minus(wants, free)); len(never) > 0 {
				a.lacksShare[r.Name] = never
				continue
			}
			if short := positive(minus(wants, left)); len(short) > 0 {
				a.lacksShare[r.Name] = short
			}
		}
		left = minus(left, wants)
	}
	a.Reserved, a.Outstanding = p.reserved(*a, a.withinShare(a.Reservations))
}

// withinShare returns the reservations that do not wait for a strict share.
func (a Account) withinShare(
	all []*v1alpha1.MigrationReservation,
) []*v1alpha1.MigrationReservation {
	return slices.DeleteFunc(slices.Clone(all), func(r *v1alpha1.MigrationReservation) bool {
		return len(a.lacksShare[r.Name]) > 0
	})
}

// LackingShare describes the shortage of strict maintenance shares for a reservation; empty without
// a shortage.
func LackingShare(accounts []Account, reservation string) string {
	return lacking(accounts, func(a Account) error {
		if len(a.lacksShare[reservation]) == 0 {
			return nil
		}
		return shareError(a.describeShareShortage(reservation))
	})
}

type shareError string

func (e shareError) Error() string { return string(e) }

func (a Account) describeShareShortage(reservation string) string {
	return "the maintenance share of ResourceQuota " + a.Quota.Name + " lacks " +
		FormatAmounts(a.lacksShare[reservation])
}
