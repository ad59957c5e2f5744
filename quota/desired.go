package quota

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/mooring-vm/mooring/api/v1alpha1"
)

// Desired returns spec.hard, for each resource of the base and no other:
//
//	base + overrun + (reservations - free maintenance share, if positive)
//
// A strict share covers all reservations of its resources, see [Maintenance].
//
// The overrun is the use beyond the base by pods other than reserved target pods. Without it the
// next migration would lack these amounts. Two parts bound it. The first is the use beyond the base
// when the quota got this base, see [OverrunAnnotation]: a larger target pod or a lowered quota can
// cause it. The second is the charge of launchers that were target pods themselves, because they
// may be larger than the launchers before them. So the overrun does not grow with other pods: a
// Deployment would take each raise. Without reservations there is none.
//
// The free maintenance share is the share minus its use by other pods. VMs can use a part of the
// share if they started before it existed, and pods other than VMs can use all of it.
//
// The use by pods that the snapshot lacks is uncertain, see inFlight. Within these limits spec.hard
// stays as it is.
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
	aside := a.FreeMaintenance
	if a.Shares.Strict {
		aside = Max(aside, restrictTo(reserved, a.Shares.Maintenance))
	}
	return Desired(a.Base, a.Overrun, reserved, aside)
}

// overrun returns the use beyond the base that the quota covers while it has reservations.
func (a Account) overrun(taken, migrated corev1.ResourceList) corev1.ResourceList {
	if !a.reservesPods() {
		return nil
	}
	out := corev1.ResourceList{}
	bound := a.entry.DeepCopy()
	add(bound, migrated)
	for name, q := range positive(minus(taken, a.Base)) {
		if most, ok := bound[name]; ok {
			out[name] = smaller(q, most)
		}
	}
	return out
}

// reserves reports whether a launcher is the target pod of a reservation. KubeVirt can start
// another migration of the VM first. Its target pod then uses the VM's reservation.
func (p pods) reserves(a Account, pod *corev1.Pod) bool {
	migration := migrationOf(pod)
	return slices.ContainsFunc(a.Reservations, func(r *v1alpha1.MigrationReservation) bool {
		if !BlocksEdits(r) {
			return false // its target pod is the VM's only launcher now
		}
		if r.Name == migration {
			return p.targets[migration] == pod
		}
		return p.migrating[migration] && r.Spec.VMI.UID == vmiOf(pod)
	})
}

// freeMaintenance returns the part of the maintenance share that no pod other than a migration's
// target uses.
func (a Account) freeMaintenance(taken corev1.ResourceList) corev1.ResourceList {
	left := minus(restrictTo(a.Base, a.Shares.Maintenance), taken)
	out := corev1.ResourceList{}
	for name, share := range a.Shares.Maintenance {
		if q := left[name]; q.Sign() > 0 {
			out[name] = smaller(share, q)
		}
	}
	return out
}

func smaller(a, b resource.Quantity) resource.Quantity {
	if a.Cmp(b) < 0 {
		return a
	}
	return b
}

// addUse computes the amounts that depend on the use by pods other than reserved target pods: the
// larger of status.used without these pods, and the charge of the known VM pods. Each may lag
// behind the other.
//
// status.used may count a target pod before the pod exists. So the use by unknown pods raises the
// quota only if it exceeds the charge in flight. A smaller use still keeps a raised quota.
func (p pods) addUse(a *Account) error {
	vms, err := p.chargedToVMs(*a)
	if err != nil {
		return err
	}
	used := minus(restrictTo(a.Quota.Status.Used, a.Base), vms.reserved)
	if a.entry, err = overrunEntry(*a, Max(vms.others, used)); err != nil {
		return err
	}
	if a.second, err = p.secondLaunchers(*a); err != nil {
		return err
	}
	unknown := minus(used, p.inFlight(*a))
	p.limitToShare(a, a.freeMaintenance(Max(vms.others, unknown)))
	most := a.desiredBeside(Max(vms.others, used), vms.migrated)
	used = unknown
	least := a.desiredBeside(Max(vms.others, used), vms.migrated)
	a.Desired = within(a.Quota.Spec.Hard, least, most)
	return nil
}

// desiredBeside sets the account's free share and overrun, and returns spec.hard. The amounts in
// taken are the charge of pods other than reserved target pods.
func (a *Account) desiredBeside(taken, migrated corev1.ResourceList) corev1.ResourceList {
	a.FreeMaintenance, a.Overrun = a.freeMaintenance(taken), a.overrun(taken, migrated)
	return a.desired(a.Reserved)
}

// inFlight returns the charge of target pods that kube-apiserver may be creating: those of granted
// reservations. A quota that rejects the target pod of a reservation does not charge it.
func (p pods) inFlight(a Account) corev1.ResourceList {
	sum := corev1.ResourceList{}
	for _, r := range a.Reservations {
		holds := func(condition string) bool {
			return meta.IsStatusConditionTrue(r.Status.Conditions, condition)
		}
		if holds(v1alpha1.ConditionGranted) && !holds(v1alpha1.ConditionWaiting) {
			add(sum, a.outstandingOf(r, p.target(r.Name)))
		}
	}
	return sum
}

// within returns the amounts of list, or the nearest ones between two limits with the same names.
func within(list, least, most corev1.ResourceList) corev1.ResourceList {
	out := corev1.ResourceList{}
	for name, q := range least {
		if is := list[name]; is.Cmp(q) > 0 {
			q = smaller(is, most[name])
		}
		out[name] = q
	}
	return out
}

// vmCharges are a quota's charges for VM pods.
type vmCharges struct {
	reserved corev1.ResourceList // target pods and ended source pods with a reservation
	others   corev1.ResourceList
	migrated corev1.ResourceList // of the others: target pods of migrations without a reservation
}

func (p pods) chargedToVMs(a Account) (vmCharges, error) {
	sums := vmCharges{corev1.ResourceList{}, corev1.ResourceList{}, corev1.ResourceList{}}
	for _, pod := range p.byUID {
		charge, err := a.chargeOfPods(p.family(pod).reservedPods())
		if err != nil {
			return sums, err
		}
		if p.reserves(a, pod) {
			add(sums.reserved, charge)
			continue
		}
		add(sums.others, charge)
		if migrationOf(pod) != "" {
			add(sums.migrated, charge)
		}
	}
	for _, r := range a.Reservations {
		if !BlocksEdits(r) {
			charge, _ := a.chargeOf(r) // an error would have ended account
			add(sums.reserved, charge)
		}
	}
	return sums, nil
}
