package quota

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/mooring-vm/mooring/api/v1alpha1"
)

// Free returns the amount free for pods other than migration targets: the smaller of
//
//	status.hard - status.used - reservations with pods not charged yet
//	VM share    - (status.used - second launchers of migrations)
//
// without the [Claim] of VMs that wait for their launcher, and at least zero. Without a maintenance
// share the base stands for the VM share. So no pod gets room beyond the base, even if a raised
// quota has some.
//
// In mode observe, [Desired] stands for status.hard. The result lacks a resource if kube-apiserver
// has not computed its use yet.
func (a Account) Free() corev1.ResourceList {
	free := a.remaining()
	for name, q := range free {
		if q.Sign() < 0 {
			q.Set(0)
			free[name] = q
		}
	}
	return free
}

// remaining returns the free amounts, below zero where overdrawn.
func (a Account) remaining() corev1.ResourceList {
	all := corev1.ResourceList{}
	for name, hard := range a.hard() {
		used, known := a.Quota.Status.Used[name]
		if !known {
			continue
		}
		left := hard.DeepCopy()
		left.Sub(used)
		left.Sub(a.Outstanding[name])
		left.Sub(a.claimed[name])
		if limit, ok := a.limitOfOthers(name); ok {
			limit.Sub(used)
			limit.Add(a.second[name])
			limit.Sub(a.claimed[name])
			left = smaller(left, limit)
		}
		all[name] = left
	}
	return all
}

// UsedWithinBase returns status.used without the second launchers of migrations, which the base
// need not cover.
func (a Account) UsedWithinBase() corev1.ResourceList {
	return minus(a.Quota.Status.Used, a.second)
}

// limitOfOthers returns the part of the base for VMs that do not migrate.
func (a Account) limitOfOthers(name corev1.ResourceName) (resource.Quantity, bool) {
	limit, ok := a.Shares.VM[name]
	if !ok {
		limit, ok = a.Base[name]
	}
	return limit.DeepCopy(), ok
}

// Claim returns accounts with less free: pods claim their charge before they exist.
func Claim(accounts []Account, by []v1alpha1.ReservedPod) []Account {
	out := slices.Clone(accounts)
	for i := range out {
		out[i].claimed = corev1.ResourceList{}
		for _, pod := range by {
			if under, err := FallsUnder(pod, out[i].Quota); err == nil && under {
				add(out[i].claimed, restrictTo(pod.Charge, out[i].Base))
				out[i].claimants++
			}
		}
	}
	return out
}

// Check reports an error if a pod does not fit into the free amounts. The pod must not be a
// migration target. A pod outside of the quota fits, and so does every pod after an opt-out:
// Kubernetes decides about them. The error names the resources with a shortage.
func (a Account) Check(pod v1alpha1.ReservedPod) error { return a.check(pod, a.Free()) }

// CheckReplacement is Check for a pod created after the end of another pod with the charge has. The
// end of that pod first reduces an overdraft.
func (a Account) CheckReplacement(pod v1alpha1.ReservedPod, has corev1.ResourceList) error {
	free := a.remaining()
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
	return a.shortageError(pod.Charge, free, lacking)
}

// KeepsForMigrations reports whether the quota has reservations or a maintenance share.
func (a Account) KeepsForMigrations() bool {
	return len(a.Reservations) > 0 || len(a.Shares.Maintenance) > 0
}
