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

// entry is one migration and what is known of it. Either of the two objects may be missing.
type entry struct {
	name      string // the migration's UID
	migration *kubevirtv1.VirtualMachineInstanceMigration
	was       *v1alpha1.MigrationReservation

	vmi     types.UID // empty: there is no such VMI
	target  family
	waiting bool // for another migration of the same VMI
}

// outcome is what became of a migration.
type outcome int

const (
	underWay outcome = iota
	succeeded
	failed
	gone // and what became of it is not known
)

func (e entry) outcome() outcome {
	switch {
	case e.migration == nil:
		return gone
	case e.migration.Status.Phase == kubevirtv1.MigrationSucceeded:
		return succeeded
	case e.migration.Status.Phase == kubevirtv1.MigrationFailed:
		return failed
	}
	return underWay
}

// wants says whether something is to be reserved for a migration for which nothing is.
// What is aborted, or made to be deleted, or takes place elsewhere, needs nothing.
func (e entry) wants() bool {
	return e.outcome() == underWay && e.migration.DeletionTimestamp == nil && e.migration.Spec.SendTo == nil &&
		!e.has(kubevirtv1.VirtualMachineInstanceMigrationAbortRequested) &&
		!e.target.charged(v1alpha1.RoleLauncher) && e.vmi != "" && !e.waiting
}

func (e entry) has(condition kubevirtv1.VirtualMachineInstanceMigrationConditionType) bool {
	if e.migration == nil {
		return false
	}
	return slices.ContainsFunc(e.migration.Status.Conditions, func(c kubevirtv1.VirtualMachineInstanceMigrationCondition) bool {
		return c.Type == condition && c.Status == corev1.ConditionTrue
	})
}

// rejected says whether a quota keeps the target pod from being created.
func (e entry) rejected() bool {
	return e.target.launcher == nil && e.has(kubevirtv1.VirtualMachineInstanceMigrationRejectedByResourceQuota)
}

// entries are the migrations of a snapshot, and the reservations whose migration is gone,
// in the order in which KubeVirt takes them up.
func (p *planner) entries() []entry {
	var all []entry
	ledger := map[string]*v1alpha1.MigrationReservation{}
	for _, r := range p.Reservations {
		ledger[r.Name] = r
	}
	for _, m := range p.Migrations {
		all = append(all, entry{name: string(m.UID), migration: m, was: ledger[string(m.UID)], vmi: p.vmis[m.Spec.VMIName]})
		delete(ledger, string(m.UID))
	}
	for name, r := range ledger {
		all = append(all, entry{name: name, was: r})
	}
	slices.SortFunc(all, func(a, b entry) int {
		return cmp.Or(a.created().Compare(b.created().Time), cmp.Compare(a.name, b.name))
	})
	for i := range all {
		all[i].target = p.pods.target(all[i].name)
		if r := all[i].was; r != nil {
			all[i].vmi = p.alive(r.Spec.VMI.UID)
		}
	}
	p.queue(all)
	return all
}

func (e entry) created() metav1.Time {
	if e.migration != nil {
		return e.migration.CreationTimestamp
	}
	return e.was.CreationTimestamp
}

// queue finds out who has to wait: of several migrations of a VMI KubeVirt does one at a
// time, and reserves for the next one only when it is known what that starts from.
func (p *planner) queue(all []entry) {
	taken := map[types.UID]bool{}
	for _, e := range all {
		if e.outcome() == underWay && (e.was != nil || e.target.launcher != nil) {
			taken[e.vmi] = true
		}
	}
	for i, e := range all {
		if e.outcome() != underWay || e.was != nil || e.target.launcher != nil {
			continue
		}
		all[i].waiting = taken[e.vmi]
		taken[e.vmi] = true
	}
}

// source is the launcher pod that the VM of a migration runs in: not its target, nor the
// target of one that failed, nor the source of one that succeeded.
func (p *planner) source(e entry, all []entry) *corev1.Pod {
	left := map[types.UID]bool{}
	for _, other := range all {
		if other.outcome() == succeeded && other.was != nil && other.was.Spec.Source != nil {
			left[other.was.Spec.Source.UID] = true
		}
		if launcher := other.target.launcher; launcher != nil && (other.outcome() == failed || other.name == e.name) {
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
