package quota

import (
	"slices"

	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/mooring-vm/mooring/api/v1alpha1"
)

// VMIsToEstimate returns the VMIs with a target pod that needs an estimate: a quota rejects the
// target although it has room for a pod like the source, and no webhook recorded the target's
// charge. It is pure, and cheap without rejections.
func VMIsToEstimate(s Snapshot) []VMI {
	rejected := func(m *kubevirtv1.VirtualMachineInstanceMigration) bool {
		return entry{migration: m}.rejected()
	}
	if !slices.ContainsFunc(s.Migrations, rejected) {
		return nil
	}
	p := newPlanner(s, Options{})
	var all []VMI
	for _, e := range p.entries() {
		if p.needsEstimate(e) {
			all = append(all, VMI{Name: e.reservation.Spec.VMI.Name, UID: e.vmi})
		}
	}
	return all
}

func (p *planner) needsEstimate(e entry) bool {
	if e.reservation == nil || e.reservation.Status.Phase != v1alpha1.PhaseGranted ||
		e.outcome() != running || !e.rejected() || p.vmiGone(e) {
		return false
	}
	seen, _ := Rendered(e.reservation) // an unreadable annotation counts as missing
	return seen == nil
}

// estimate returns the estimated target pod, from the snapshot or from the reservation; nil without
// an estimate.
func (p *planner) estimate(r *v1alpha1.MigrationReservation, e entry) *v1alpha1.ReservedPod {
	if pod, known := p.Estimates[e.vmi]; known && p.needsEstimate(e) {
		return &pod
	}
	if at := launcherIn(r.Spec.Pods); at >= 0 && r.Spec.From == v1alpha1.Computed {
		return &r.Spec.Pods[at]
	}
	return nil
}

// raiseToEstimate raises the launcher's charge in a reservation to the estimate, per resource.
func raiseToEstimate(r *v1alpha1.MigrationReservation, estimate v1alpha1.ReservedPod) {
	at := launcherIn(r.Spec.Pods)
	if at < 0 {
		return
	}
	charge := Max(r.Spec.Pods[at].Charge, estimate.Charge)
	if equalLists(charge, r.Spec.Pods[at].Charge) {
		return
	}
	r.Spec.Pods, r.Spec.From = slices.Clone(r.Spec.Pods), v1alpha1.Computed
	r.Spec.Pods[at].Charge = charge
}

func launcherIn(pods []v1alpha1.ReservedPod) int {
	return slices.IndexFunc(pods, func(p v1alpha1.ReservedPod) bool {
		return p.Role == v1alpha1.RoleLauncher
	})
}
