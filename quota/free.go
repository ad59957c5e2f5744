package quota

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/mooring-vm/mooring/api/v1alpha1"
)

// Free returns what pods other than those of migrations may still use: the smaller of
//
//	status.hard - status.used - reservations whose pods are not charged yet
//	VMs' share  - (status.used - reservations whose pods are charged)
//
// and never less than zero. Without a maintenance share the second is the first, as soon as
// status.hard has followed; then both are what the proposal calls hard - (used -
// reservations), with base for hard and all targets charged.
//
// For resources of which kube-apiserver does not know the use yet, nothing is returned.
func (a Account) Free() corev1.ResourceList {
	free := a.left()
	for name, q := range free {
		if q.Sign() < 0 {
			q.Set(0)
			free[name] = q
		}
	}
	return free
}

// left is what is free; of what is overdrawn less than zero.
func (a Account) left() corev1.ResourceList {
	all := corev1.ResourceList{}
	for name, hard := range a.Quota.Status.Hard {
		used, known := a.Quota.Status.Used[name]
		if !known {
			continue
		}
		left := hard.DeepCopy()
		left.Sub(used)
		left.Sub(a.Outstanding[name])
		if share, shared := a.Shares.VM[name]; shared {
			ours := share.DeepCopy()
			ours.Sub(used)
			ours.Add(a.Reserved[name])
			ours.Sub(a.Outstanding[name])
			left = smaller(left, ours)
		}
		all[name] = left
	}
	return all
}

// Check says whether a pod that is no migration's fits what is free. A pod that does not
// fall under the quota does, and any pod where the quota has opted out: that is Kubernetes'
// to judge. The error names what there is too little of.
func (a Account) Check(pod v1alpha1.ReservedPod) error { return a.check(pod, a.Free()) }

// CheckAgain is Check for a pod that is made when another is gone that is charged with has:
// of what is overdrawn, that gives back as much less.
func (a Account) CheckAgain(pod v1alpha1.ReservedPod, has corev1.ResourceList) error {
	free := a.left()
	for name, q := range free {
		q.Add(has[name])
		if q.Sign() < 0 {
			q.Set(0)
		}
		free[name] = q
	}
	return a.check(pod, free)
}

func (a Account) check(pod v1alpha1.ReservedPod, free corev1.ResourceList) error {
	if a.OptedOut {
		return nil
	}
	under, err := FallsUnder(pod, a.Quota)
	if err != nil || !under {
		return err
	}
	var lacking []corev1.ResourceName
	for _, name := range names(free) {
		if wants := pod.Charge[name]; wants.Sign() > 0 && wants.Cmp(free[name]) > 0 {
			lacking = append(lacking, name)
		}
	}
	if len(lacking) == 0 {
		return nil
	}
	return a.lacks(pod.Charge, free, lacking)
}

// Keeps says whether the quota keeps something for migrations.
func (a Account) Keeps() bool { return len(a.Holders) > 0 || len(a.Shares.Maintenance) > 0 }
