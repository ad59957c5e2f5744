package quota

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/mooring-vm/mooring/api/v1alpha1"
)

// entry is one migration with its reservation. Either object may be missing.
type entry struct {
	name        string // the migration's UID
	migration   *kubevirtv1.VirtualMachineInstanceMigration
	reservation *v1alpha1.MigrationReservation

	vmi     types.UID // empty without a VMI
	target  family
	waiting bool // for an earlier migration of the same VMI
}

// outcome is the result of a migration.
type outcome int

const (
	running outcome = iota
	succeeded
	failed
	unknownOutcome // the migration object is gone
)

func (e entry) outcome() outcome {
	switch {
	case e.migration == nil:
		return unknownOutcome
	case e.migration.Status.Phase == kubevirtv1.MigrationSucceeded:
		return succeeded
	case e.migration.Status.Phase == kubevirtv1.MigrationFailed:
		return failed
	}
	return running
}

// needsReservation reports whether a migration without a reservation needs one. An aborted, deleted
// or outgoing cross-cluster migration does not.
func (e entry) needsReservation() bool {
	return e.outcome() == running && e.migration.DeletionTimestamp == nil &&
		e.migration.Spec.SendTo == nil &&
		!e.hasCondition(kubevirtv1.VirtualMachineInstanceMigrationAbortRequested) &&
		!e.target.charged(v1alpha1.RoleLauncher) && e.vmi != "" && !e.waiting
}

func (e entry) hasCondition(
	condition kubevirtv1.VirtualMachineInstanceMigrationConditionType,
) bool {
	if e.migration == nil {
		return false
	}
	return slices.ContainsFunc(e.migration.Status.Conditions,
		func(c kubevirtv1.VirtualMachineInstanceMigrationCondition) bool {
			return c.Type == condition && c.Status == corev1.ConditionTrue
		})
}

// rejected reports whether a quota prevents the creation of the target pod.
func (e entry) rejected() bool {
	return e.target.launcher == nil &&
		e.hasCondition(kubevirtv1.VirtualMachineInstanceMigrationRejectedByResourceQuota)
}

// entries returns the migrations of a snapshot, and the reservations without a migration, in
// KubeVirt's order of processing.
func (p *planner) entries() []entry {
	var all []entry
	ledger := map[string]*v1alpha1.MigrationReservation{}
	for _, r := range p.Reservations {
		ledger[r.Name] = r
	}
	for _, m := range p.Migrations {
		all = append(all, entry{name: string(m.UID), migration: m,
			reservation: ledger[string(m.UID)], vmi: p.vmis[m.Spec.VMIName]})
		delete(ledger, string(m.UID))
	}
	for name, r := range ledger {
		all = append(all, entry{name: name, reservation: r})
	}
	slices.SortFunc(all, func(a, b entry) int {
		return cmp.Or(a.created().Compare(b.created().Time), cmp.Compare(a.name, b.name))
	})
	for i := range all {
		all[i].target = p.pods.target(all[i].name)
		if r := all[i].reservation; r != nil {
			all[i].vmi = p.existingVMI(r.Spec.VMI.UID)
		}
	}
	p.markWaiting(all)
	return all
}

func (e entry) created() metav1.Time {
	if e.migration != nil {
		return e.migration.CreationTimestamp
	}
	return e.reservation.CreationTimestamp
}

// markWaiting marks the migrations that wait. KubeVirt runs one migration of a VMI at a time. The
// next one gets its reservation when the planner knows its source pod.
func (p *planner) markWaiting(all []entry) {
	taken := map[types.UID]bool{}
	for _, e := range all {
		if e.outcome() == running && (e.reservation != nil || e.target.launcher != nil) {
			taken[e.vmi] = true
		}
	}
	for i, e := range all {
		if e.outcome() != running || e.reservation != nil || e.target.launcher != nil {
			continue
		}
		all[i].waiting = taken[e.vmi]
		taken[e.vmi] = true
	}
}

// source returns the launcher pod in which the migration's VM runs. It excludes the migration's
// target, targets of failed migrations and sources of succeeded ones.
func (p *planner) source(e entry, all []entry) *corev1.Pod {
	left := map[types.UID]bool{}
	for _, other := range all {
		if other.outcome() == succeeded && other.reservation != nil &&
			other.reservation.Spec.Source != nil {
			left[other.reservation.Spec.Source.UID] = true
		}
		if launcher := other.target.launcher; launcher != nil &&
			(other.outcome() == failed || other.name == e.name) {
			left[launcher.UID] = true
		}
	}
	for _, pod := range p.pods.ofVMI[e.vmi] {
		if !left[pod.UID] && pod.DeletionTimestamp == nil && Charged(pod, p.Now) {
			return pod
		}
	}
	return nil
}
