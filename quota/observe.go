package quota

import (
	"slices"

	"github.com/mooring-vm/mooring/api/v1alpha1"
)

// quotaActions returns the writes of quotas in mode enforce.
func (p *planner) quotaActions() []Action {
	if p.o.Observe {
		return nil
	}
	all := make([]Action, len(p.quotaWrites))
	for i, w := range p.quotaWrites {
		all[i] = w
	}
	return all
}

// withheld returns the writes of quotas that mode observe leaves out.
func (p *planner) withheld() []WriteQuota {
	if p.o.Observe {
		return p.quotaWrites
	}
	return nil
}

// addFinalizer adds the finalizer that protects a raised quota. Mode observe raises no quota, and
// must not delay the end of a namespace.
func (p *planner) addFinalizer(r *v1alpha1.MigrationReservation) {
	if p.o.Observe || r.DeletionTimestamp != nil ||
		slices.Contains(r.Finalizers, v1alpha1.Finalizer) {
		return
	}
	r.Finalizers = append(r.Finalizers, v1alpha1.Finalizer)
}

// wouldReason returns the reason in mode observe for a reason of mode enforce.
func wouldReason(reason string) string {
	switch reason {
	case ReasonReserved:
		return ReasonWouldReserve
	case ReasonGrown:
		return ReasonWouldReserveMore
	case ReasonReleased:
		return ReasonWouldRelease
	}
	return reason
}
