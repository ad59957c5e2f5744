package quota_test

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/mooring-vm/mooring/api/v1alpha1"
	"github.com/mooring-vm/mooring/quota"
)

// judge checks a write at the time of the write.
func (m *model) judge(a quota.Action) {
	switch a := a.(type) {
	case quota.ReleaseReservation:
		m.judgeRelease(a.Reservation)
	case quota.WriteQuota:
		if m.s.Quotas[0].ResourceVersion == a.ResourceVersion {
			m.judgeQuota(a)
		}
	}
}

// judgeRelease: a release before the end of the awaited pod needs a quota without room for it.
func (m *model) judgeRelease(r *v1alpha1.MigrationReservation) {
	source, target := false, false
	for _, pod := range m.running(string(r.Spec.VMI.UID)) {
		source = source || r.Spec.Source != nil && pod.UID == r.Spec.Source.UID
		target = target || pod.Labels[kubevirtv1.MigrationJobLabel] == r.Name
	}
	if source && target {
		m.t.Fatalf("%s was released, and both of its pods are charged", r.Name)
	}
}

// judgeQuota: the ledger, the use above the base and the launchers that migrated explain each
// raise, now or at the time of the cache.
func (m *model) judgeQuota(w quota.WriteQuota) {
	most := map[string]corev1.ResourceList{}
	for _, r := range slices.Concat(m.s.Reservations, m.cache.Reservations) {
		sum := corev1.ResourceList{}
		for _, pod := range r.Spec.Pods {
			plus(sum, pod.Charge)
		}
		for name, q := range most[r.Name] {
			if had := sum[name]; q.Cmp(had) > 0 {
				sum[name] = q
			}
		}
		most[r.Name] = sum
	}
	allowed := m.truth.DeepCopy()
	for _, sum := range most {
		plus(allowed, sum)
	}
	migrated := map[types.UID]*corev1.Pod{}
	for _, pod := range slices.Concat(m.s.Pods, m.cache.Pods) {
		if pod.Labels[kubevirtv1.MigrationJobLabel] != "" {
			migrated[pod.UID] = pod
		}
	}
	for _, pod := range migrated {
		plus(allowed, quota.Charge(pod))
	}
	plus(allowed, m.excess())
	for name, q := range w.Hard {
		if most := allowed[name]; q.Cmp(most) > 0 {
			m.t.Fatalf("%s is raised to %s, and base, ledger and migrated VMs are %s", name,
				q.String(), most.String())
		}
	}
}

// excess returns the largest use above the base by pods that are no targets.
func (m *model) excess() corev1.ResourceList {
	used := quota.Max(m.s.Quotas[0].Status.Used, m.cache.Quotas[0].Status.Used)
	for _, pods := range [][]*corev1.Pod{m.s.Pods, m.cache.Pods} {
		sum := corev1.ResourceList{}
		for _, pod := range pods {
			if pod.Labels[kubevirtv1.MigrationJobLabel] == "" && quota.Charged(pod, m.s.Now) {
				plus(sum, quota.Charge(pod))
			}
		}
		used = quota.Max(used, sum)
	}
	out := corev1.ResourceList{}
	for name, base := range m.truth {
		excess := used[name]
		if excess.Sub(base); excess.Sign() > 0 && quota.ChargedForPods(name) {
			out[name] = excess
		}
	}
	return out
}

func plus(a, b corev1.ResourceList) {
	for name, q := range b {
		sum := a[name].DeepCopy()
		sum.Add(q)
		a[name] = sum
	}
}

// Check holds at every step.
func (m *model) Check(t *rapid.T) {
	for name, q := range m.s.Quotas[0].Spec.Hard {
		if base, ok := m.truth[name]; !ok || q.Cmp(base) < 0 {
			t.Fatalf("%s is %s, and its base is %s", name, q.String(), base.String())
		}
	}
	if len(m.s.Quotas[0].Spec.Hard) != len(m.truth) {
		t.Fatalf("a resource went missing: %v", m.s.Quotas[0].Spec.Hard)
	}
}
