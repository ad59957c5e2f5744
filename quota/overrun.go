package quota

import (
	corev1 "k8s.io/api/core/v1"
)

// overrunEntry returns the ledger's entry for use beyond the base. It is the recorded entry, or for
// a new base what other pods take beyond it. Use that grows later adds nothing to the entry.
func overrunEntry(a Account, taken corev1.ResourceList) (corev1.ResourceList, error) {
	saved, err := parseList(BaseAnnotation, a.Quota.Annotations)
	if err != nil {
		return nil, err
	}
	recorded, err := parseList(OverrunAnnotation, a.Quota.Annotations)
	if err != nil {
		return nil, err
	}
	entry := positive(minus(taken, a.Base))
	if _, kept := a.Quota.Annotations[OverrunAnnotation]; !kept {
		return entry, nil
	}
	for name, base := range a.Base {
		if was, known := saved[name]; known && was.Cmp(base) == 0 {
			delete(entry, name)
			if q, ok := recorded[name]; ok {
				entry[name] = q
			}
		}
	}
	return entry, nil
}

// secondLaunchers returns the charge of a quota for the launchers of migrations that go beyond the
// base. A migration keeps one of its two launchers, so for each resource the smaller charge goes.
// If only one of the launchers is charged, it is within the base. Of an ended launcher only
// count/pods is charged.
func (p pods) secondLaunchers(a Account) (corev1.ResourceList, error) {
	sum := corev1.ResourceList{}
	for _, r := range a.Reservations {
		if r.Spec.Source == nil {
			continue
		}
		source, err := a.chargeOfPods(p.storedPods(r.Spec.Source.UID))
		if err != nil {
			return nil, err
		}
		var target corev1.ResourceList
		if pod := p.targets[r.Name]; pod != nil {
			if target, err = a.chargeOfPods(p.storedPods(pod.UID)); err != nil {
				return nil, err
			}
		}
		for name, q := range restrictTo(source, target) {
			add(sum, corev1.ResourceList{name: smaller(q, target[name])})
		}
	}
	return sum, nil
}
