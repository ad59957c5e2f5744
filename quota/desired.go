package quota

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
)

// Desired is what spec.hard has to be, for each resource of the base and no other:
//
//	base + what is reserved beyond what of the base is aside for migrations
//
// That is their share of it, less what VMs have taken of that: they may be larger than what
// is theirs where they ran before it was shared out.
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

// aside is what of the share for migrations VMs leave.
func (p pods) aside(a Account) (corev1.ResourceList, error) {
	if len(a.Shares.Maintenance) == 0 {
		return nil, nil
	}
	taken, err := p.ofVMs(a)
	if err != nil {
		return nil, err
	}
	left := minus(only(a.Base, a.Shares.Maintenance), taken)
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

// ofVMs is what pods of VMs are charged to a quota, apart from those that are reserved for.
func (p pods) ofVMs(a Account) (corev1.ResourceList, error) {
	reserved := map[types.UID]bool{}
	for _, r := range a.Holders {
		if target := p.targets[r.Name]; target != nil {
			reserved[target.UID] = true
		}
	}
	sum := corev1.ResourceList{}
	for uid := range p.byUID {
		if reserved[uid] {
			continue
		}
		for _, pod := range p.family(p.byUID[uid]).reserve() {
			under, err := FallsUnder(pod, a.Quota)
			if err != nil {
				return nil, err
			}
			if under {
				add(sum, only(pod.Charge, a.Base))
			}
		}
	}
	return sum, nil
}
