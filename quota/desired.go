package quota

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
)

// Desired returns spec.hard, for each resource of the base and no other:
//
//	base + (reservations - free maintenance share, if positive)
//
// The free maintenance share is the share minus its use by VMs. VMs can use a part of the share if
// they started before the share existed.
func Desired(base, reserved, aside corev1.ResourceList) corev1.ResourceList {
	beyond := positive(minus(reserved, aside))
	out := base.DeepCopy()
	for name, q := range out {
		if more, ok := beyond[name]; ok {
			q.Add(more)
			out[name] = q
		}
	}
	return out
}

// freeMaintenance returns the part of the maintenance share free of VMs.
func (p pods) freeMaintenance(a Account) (corev1.ResourceList, error) {
	if len(a.Shares.Maintenance) == 0 {
		return nil, nil
	}
	taken, err := p.chargedToVMs(a)
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

// chargedToVMs returns the quota's charge for VM pods other than reserved target pods.
func (p pods) chargedToVMs(a Account) (corev1.ResourceList, error) {
	reserved := map[types.UID]bool{}
	for _, r := range a.Reservations {
		if target := p.targets[r.Name]; target != nil {
			reserved[target.UID] = true
		}
	}
	sum := corev1.ResourceList{}
	for uid := range p.byUID {
		if reserved[uid] {
			continue
		}
		for _, pod := range p.family(p.byUID[uid]).reservedPods() {
			under, err := FallsUnder(pod, a.Quota)
			if err != nil {
				return nil, err
			}
			if under {
				add(sum, restrictTo(pod.Charge, a.Base))
			}
		}
	}
	return sum, nil
}
