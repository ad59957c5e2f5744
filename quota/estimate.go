package quota

import (
	"slices"

	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/mooring-vm/mooring/api/v1alpha1"
)

// ToEstimate returns the VMIs of which the planner wants to know what a target pod is likely
// to be charged: a quota rejects it though it has room for one like the source, and no
// webhook has seen it. It is pure, and cheap where no quota rejects anything.
func ToEstimate(s Snapshot) []VMI {
	rejected := func(m *kubevirtv1.VirtualMachineInstanceMigration) bool { return entry{migration: m}.rejected() }
	if !slices.ContainsFunc(s.Migrations, rejected) {
		return nil
	}
	p := newPlanner(s, Options{})
	var all []VMI
	for _, e := range p.entries() {
		if p.unsized(e) {
			all = append(all, VMI{Name: e.was.Spec.VMI.Name, UID: e.vmi})
		}
	}
	return all
}

func (p *planner) unsized(e entry) bool {
	if e.was == nil || e.was.Status.Phase != v1alpha1.PhaseGranted || e.outcome() != underWay || !e.rejected() || p.vmiGone(e) {
		return false
	}
	seen, _ := Rendered(e.was) // what cannot be read says nothing
	return seen == nil
}

// estimate is what the target pod is likely to be charged, as it is known now, or was when
// something was reserved by it; nil: it is not known.
func (p *planner) estimate(r *v1alpha1.MigrationReservation, e entry) *v1alpha1.ReservedPod {
	if pod, known := p.Estimates[e.vmi]; known && p.unsized(e) {
		return &pod
	}
	if at := launcherIn(r.Spec.Pods); at >= 0 && r.Spec.From == v1alpha1.Computed {
		return &r.Spec.Pods[at]
	}
	return nil
}

// enterEstimate has a reservation hold for its launcher, of each resource, the larger of what
// it holds and an estimate.
func enterEstimate(r *v1alpha1.MigrationReservation, estimate v1alpha1.ReservedPod) {
	at := launcherIn(r.Spec.Pods)
	if at < 0 {
		return
	}
	charge := Most(r.Spec.Pods[at].Charge, estimate.Charge)
	if same(charge, r.Spec.Pods[at].Charge) {
		return
	}
	r.Spec.Pods, r.Spec.From = slices.Clone(r.Spec.Pods), v1alpha1.Computed
	r.Spec.Pods[at].Charge = charge
}

func launcherIn(pods []v1alpha1.ReservedPod) int {
	return slices.IndexFunc(pods, func(p v1alpha1.ReservedPod) bool { return p.Role == v1alpha1.RoleLauncher })
}
