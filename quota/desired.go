package quota

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/mooring-vm/mooring/api/v1alpha1"
)

// Desired returns spec.hard, for each resource of the base and no other:
//
//	base + overrun + (reservations - free maintenance share, if positive)
//
// The overrun is the use beyond the base by pods other than reserved target pods, and at most the
// charge of launchers that were target pods themselves. They may be larger than the launchers
// before them, so without it the next migration would lack their growth. It does not grow with
// other pods: a Deployment would take each raise. Without reservations there is none.
//
// The free maintenance share is the share minus its use by other pods. VMs can use a part of the
// share if they started before it existed, and pods other than VMs can use all of it.
func Desired(base, overrun, reserved, aside corev1.ResourceList) corev1.ResourceList {
	beyond := positive(minus(reserved, aside))
	add(beyond, overrun)
	out := base.DeepCopy()
	for name, q := range out {
		if more, ok := beyond[name]; ok {
			q.Add(more)
			out[name] = q
		}
	}
	return out
}

// desired returns spec.hard with room for these reservations.
func (a Account) desired(reserved corev1.ResourceList) corev1.ResourceList {
	return Desired(a.Base, a.Overrun, reserved, a.FreeMaintenance)
}

// overrun returns the use beyond the base that the quota covers while it has reservations.
func (p pods) overrun(a Account) (corev1.ResourceList, error) {
	if len(a.Reservations) == 0 {
		return nil, nil
	}
	taken, err := p.chargedToOthers(a)
	if err != nil {
		return nil, err
	}
	migrated, err := p.chargedToMigrated(a)
	if err != nil {
		return nil, err
	}
	out := corev1.ResourceList{}
	for name, q := range positive(minus(taken, a.Base)) {
		if most, ok := migrated[name]; ok {
			out[name] = smaller(q, most)
		}
	}
	return out, nil
}

// chargedToMigrated returns the quota's charge for launchers that were target pods of migrations
// without a reservation now.
func (p pods) chargedToMigrated(a Account) (corev1.ResourceList, error) {
	sum := corev1.ResourceList{}
	for _, pod := range p.byUID {
		if migrationOf(pod) == "" || p.reserves(a, pod) || !Charged(pod, p.now) {
			continue
		}
		charge, err := a.chargeOfPods(p.family(pod).reservedPods())
		if err != nil {
			return nil, err
		}
		add(sum, charge)
	}
	return sum, nil
}

// reserves reports whether a launcher is the target pod of a reservation.
func (p pods) reserves(a Account, pod *corev1.Pod) bool {
	return p.targets[migrationOf(pod)] == pod && slices.ContainsFunc(a.Reservations,
		func(r *v1alpha1.MigrationReservation) bool { return r.Name == migrationOf(pod) })
}

// freeMaintenance returns the part of the maintenance share that no pod other than a migration's
// target uses.
func (p pods) freeMaintenance(a Account) (corev1.ResourceList, error) {
	if len(a.Shares.Maintenance) == 0 {
		return nil, nil
	}
	taken, err := p.chargedToOthers(a)
	if err != nil {
		return nil, err
	}
	left := minus(restrictTo(a.Base, a.Shares.Maintenance), taken)
	out := corev1.ResourceList{}
	for name, share := range a.Shares.Maintenance {
		if q := left[name]; q.Sign() > 0 {
			out[name] = smaller(share, q)
		}
	}
	return out, nil
}

func smaller(a, b resource.Quantity) resource.Quantity {
	if a.Cmp(b) < 0 {
		return a
	}
	return b
}

// chargedToOthers returns the quota's charge for pods other than reserved target pods: the larger
// of its use without these pods, and the charge of the known VM pods. Each may lag behind the
// other.
func (p pods) chargedToOthers(a Account) (corev1.ResourceList, error) {
	vms, targets, err := p.chargedToVMs(a)
	if err != nil {
		return nil, err
	}
	return Max(vms, minus(restrictTo(a.Quota.Status.Used, a.Base), targets)), nil
}

// chargedToVMs returns the quota's charge for VM pods: for reserved target pods, and for the
// others.
func (p pods) chargedToVMs(a Account) (others, targets corev1.ResourceList, err error) {
	others, targets = corev1.ResourceList{}, corev1.ResourceList{}
	for _, pod := range p.byUID {
		sum := others
		if p.reserves(a, pod) {
			sum = targets
		}
		charge, err := a.chargeOfPods(p.family(pod).reservedPods())
		if err != nil {
			return nil, nil, err
		}
		add(sum, charge)
	}
	return others, targets, nil
}
