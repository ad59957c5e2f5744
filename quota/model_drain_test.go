package quota_test

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/mooring-vm/mooring/api/v1alpha1"
	"github.com/mooring-vm/mooring/quota"
)

// admit creates a pod that is no migration target, if the webhook and kube-apiserver admit it.
// Such a pod never gets room above the base of a raised quota.
func (m *model) admit(pod *corev1.Pod) bool {
	q := m.s.Quotas[0]
	if len(q.Status.Hard) == 0 || !m.admitsOther(pod) {
		return false
	}
	raised := q.Annotations[quota.BaseAnnotation] != ""
	if raised && !m.withinBase(pod, m.truth) {
		m.t.Fatalf("%s with %v is admitted above the base %v: spec.hard %v, used %v", pod.Name,
			quota.Charge(pod), m.truth, q.Spec.Hard, m.used(q))
	}
	m.charge(pod)
	return true
}

// drain migrates all VMs while users are quiet. Each target pod is admitted in the end, or the
// reservation names the missing amount.
func (m *model) drain() {
	var open []*kubevirtv1.VirtualMachineInstanceMigration
	targets := map[string]*corev1.Pod{}
	for _, v := range m.s.VMIs {
		if len(m.running(v.Name)) != 1 {
			continue
		}
		name := m.name("drain")
		one := migration(name, v.Name, kubevirtv1.MigrationPending)
		one.CreationTimestamp.Time = m.s.Now
		open = append(open, one)
		targets[name] = target(m.name("t"), v.Name, name, m.size(), "1")
		targets[name].CreationTimestamp.Time = m.s.Now
	}
	m.s.Migrations = append(m.s.Migrations, open...)
	open = rapid.Permutation(open).Draw(m.t, "order")
	for range 2 * len(open) {
		m.settle()
		open = slices.DeleteFunc(open, func(one *kubevirtv1.VirtualMachineInstanceMigration) bool {
			return m.migrate(one, targets[one.Name])
		})
		m.pass(time.Minute)
	}
	m.settle()
	for _, one := range open {
		m.judgeWait(one)
	}
}

// migrate runs a migration from the creation of its target pod to the end of its source, and
// reports whether a quota admitted the target pod.
func (m *model) migrate(
	one *kubevirtv1.VirtualMachineInstanceMigration, pod *corev1.Pod,
) bool {
	if !m.admits(pod) {
		m.rejectTarget(one, pod)
		return false
	}
	one.Status.Phase, one.Status.Conditions = kubevirtv1.MigrationSucceeded, nil
	for _, source := range m.running(one.Spec.VMIName) {
		m.goes[source.UID] = true
	}
	m.charge(pod)
	m.settle()
	for _, source := range m.running(one.Spec.VMIName) {
		if m.goes[source.UID] {
			ended(source)
		}
	}
	m.settle()
	return true
}

// judgeWait: a reservation without a target pod names the missing amount.
func (m *model) judgeWait(one *kubevirtv1.VirtualMachineInstanceMigration) {
	at := m.find(one.Name)
	if at < 0 {
		m.t.Fatalf("%s waits without a reservation", one.Name)
	}
	c := meta.FindStatusCondition(m.s.Reservations[at].Status.Conditions,
		v1alpha1.ConditionWaiting)
	if c == nil || c.Reason != "QuotaFull" || !strings.Contains(c.Message, "lacks") {
		m.t.Fatalf("%s waits, and its condition is %+v", one.Name, c)
	}
}
