package quota_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/mooring-vm/mooring/api/v1alpha1"
	"github.com/mooring-vm/mooring/quota"
)

// model is a namespace with VMs, KubeVirt, administrators and a controller. The controller can die
// between two writes and reads caches of any age. The model checks safety at each step and liveness
// at the end.
type model struct {
	*world
	t      *rapid.T
	cache  quota.Snapshot
	truth  corev1.ResourceList // amounts set by administrators
	goes   map[types.UID]bool  // pods that must end
	serial int
}

func newModel(t *rapid.T) *model {
	limits := corev1.ResourceList{}
	for _, name := range []corev1.ResourceName{"limits.cpu", "requests.cpu", "limits.memory",
		"memory", "pods", "count/pods"} {
		if rapid.Bool().Draw(t, string(name)) {
			limits[name] = *resource.NewQuantity(int64(rapid.IntRange(1, 6).Draw(t, "hard")),
				resource.DecimalSI)
		}
	}
	limits["services"] = resource.MustParse("3")
	s := snapshot(hard(limits, nil))
	s.VMIs = nil
	m := &model{world: worldOf(s), t: t, truth: limits.DeepCopy(), goes: map[types.UID]bool{}}
	m.follow()
	m.cache = copied(m.s)
	return m
}

func (m *model) name(kind string) string {
	m.serial++
	return kind + strconv.Itoa(m.serial)
}

func (m *model) size() string { return strconv.Itoa(rapid.IntRange(1, 2).Draw(m.t, "size")) }

func (m *model) StartVM(*rapid.T) {
	name := m.name("vm")
	if m.admit(launcher(name+"-pod", name, m.size(), "1")) {
		m.s.VMIs = append(m.s.VMIs, quota.VMI{Name: name, UID: types.UID(name)})
	}
}

// StartPod creates a pod of no VM.
func (m *model) StartPod(*rapid.T) { m.admit(plainPod(m.name("plain"), m.size())) }

// StopPod ends a pod of no VM.
func (m *model) StopPod(t *rapid.T) {
	for _, pod := range m.s.Pods {
		if len(pod.Labels) == 0 && quota.Charged(pod, m.s.Now) {
			ended(pod)
			return
		}
	}
	t.Skip("no pod")
}

func (m *model) StopVM(t *rapid.T) {
	if len(m.s.VMIs) == 0 {
		t.Skip("no VM")
	}
	at := rapid.IntRange(0, len(m.s.VMIs)-1).Draw(t, "vm")
	vmi := string(m.s.VMIs[at].UID)
	m.s.VMIs = slices.Delete(slices.Clone(m.s.VMIs), at, at+1)
	for _, pod := range m.running(vmi) {
		pod.DeletionTimestamp = &metav1.Time{Time: m.s.Now.Add(30 * time.Second)}
		pod.DeletionGracePeriodSeconds = new(int64(30))
	}
}

func (m *model) Migrate(t *rapid.T) {
	if len(m.s.VMIs) == 0 {
		t.Skip("no VM")
	}
	vmi := rapid.SampledFrom(m.s.VMIs).Draw(t, "vm")
	one := migration(m.name("m"), vmi.Name, kubevirtv1.MigrationPending)
	one.CreationTimestamp.Time = m.s.Now
	m.s.Migrations = append(m.s.Migrations, one)
}

// some returns a running migration.
func (m *model) some(t *rapid.T) *kubevirtv1.VirtualMachineInstanceMigration {
	var open []*kubevirtv1.VirtualMachineInstanceMigration
	for _, one := range m.s.Migrations {
		if !one.IsFinal() {
			open = append(open, one)
		}
	}
	if len(open) == 0 {
		t.Skip("no migration")
	}
	return rapid.SampledFrom(open).Draw(t, "migration")
}

// Create acts as virt-controller: one target at a time, from one pod.
func (m *model) Create(t *rapid.T) {
	one := m.some(t)
	running := m.running(one.Spec.VMIName)
	busy := slices.ContainsFunc(m.s.Migrations,
		func(other *kubevirtv1.VirtualMachineInstanceMigration) bool {
			return other.Spec.VMIName == one.Spec.VMIName &&
				other.Status.Phase == kubevirtv1.MigrationRunning
		})
	if len(running) != 1 || busy || running[0].DeletionTimestamp != nil {
		t.Skip("not its turn")
	}
	pod := target(m.name("t"), one.Spec.VMIName, string(one.UID), m.size(), "1")
	pod.CreationTimestamp.Time = m.s.Now
	if !m.admits(pod) {
		with(one, kubevirtv1.VirtualMachineInstanceMigrationRejectedByResourceQuota)
		return
	}
	one.Status.Phase, one.Status.Conditions = kubevirtv1.MigrationRunning, nil
	m.charge(pod)
}

// Finish ends a migration with some outcome. Pods end later.
func (m *model) Finish(t *rapid.T) {
	one := m.some(t)
	succeeds := one.Status.Phase == kubevirtv1.MigrationRunning &&
		len(m.running(one.Spec.VMIName)) == 2 && rapid.Bool().Draw(t, "succeeds")
	one.Status.Phase = kubevirtv1.MigrationFailed
	if succeeds {
		one.Status.Phase = kubevirtv1.MigrationSucceeded
	}
	m.end(one, succeeds)
}

func (m *model) Forget(t *rapid.T) {
	if len(m.s.Migrations) == 0 {
		t.Skip("no migration")
	}
	at := rapid.IntRange(0, len(m.s.Migrations)-1).Draw(t, "migration")
	if one := m.s.Migrations[at]; !one.IsFinal() {
		m.end(one, false)
	}
	m.s.Migrations = slices.Delete(slices.Clone(m.s.Migrations), at, at+1)
}

// EndPod ends a pod that must end, or deletes one that has ended.
func (m *model) EndPod(t *rapid.T) {
	var loose []*corev1.Pod
	for _, pod := range m.s.Pods {
		if m.loose(pod) {
			loose = append(loose, pod)
		}
	}
	if len(loose) == 0 {
		t.Skip("no pod")
	}
	m.endPod(rapid.SampledFrom(loose).Draw(t, "pod"))
}

func (m *model) endPod(pod *corev1.Pod) {
	if quota.Charged(pod, m.s.Now) {
		pod.Status.Phase = corev1.PodSucceeded
		return
	}
	m.s.Pods = slices.DeleteFunc(slices.Clone(m.s.Pods),
		func(p *corev1.Pod) bool { return p.UID == pod.UID })
}

// loose reports whether a pod belongs to no VM and no migration.
func (m *model) loose(pod *corev1.Pod) bool {
	return m.goes[pod.UID] || pod.DeletionTimestamp != nil || !quota.Charged(pod, m.s.Now)
}

// end ends a migration. Then the target ends after a failure, or every other pod of the VM after a
// success.
func (m *model) end(one *kubevirtv1.VirtualMachineInstanceMigration, succeeds bool) {
	for _, pod := range m.running(one.Spec.VMIName) {
		if ours := pod.Labels[kubevirtv1.MigrationJobLabel] == string(one.UID); ours != succeeds {
			m.goes[pod.UID] = m.goes[pod.UID] || succeeds || ours
		}
	}
}

func (m *model) Edit(t *rapid.T) {
	q := m.s.Quotas[0]
	name := rapid.SampledFrom(slices.Sorted(keys(m.truth))).Draw(t, "resource")
	n := *resource.NewQuantity(int64(rapid.IntRange(1, 9).Draw(t, "hard")), resource.DecimalSI)
	if applied := jsonList(t, q.Annotations[quota.AppliedAnnotation])[name]; applied.Cmp(n) == 0 {
		t.Skip("such an edit is invisible")
	}
	q.Spec.Hard[name], m.truth[name], q.ResourceVersion = n, n, m.next()
}

func jsonList(t *rapid.T, text string) corev1.ResourceList {
	out := corev1.ResourceList{}
	if text == "" {
		return out
	}
	if err := json.Unmarshal([]byte(text), &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func keys(l corev1.ResourceList) func(func(corev1.ResourceName) bool) {
	return func(yield func(corev1.ResourceName) bool) {
		for name := range l {
			if !yield(name) {
				return
			}
		}
	}
}

func (m *model) Reset(*rapid.T) {
	m.s.Quotas[0].Spec.Hard, m.s.Quotas[0].ResourceVersion = m.truth.DeepCopy(), m.next()
}

func (m *model) Recreate(*rapid.T) {
	q := hard(m.truth.DeepCopy(), nil)
	q.UID, q.ResourceVersion, q.Status = types.UID(m.name("quota")), m.next(),
		corev1.ResourceQuotaStatus{}
	m.s.Quotas = []*corev1.ResourceQuota{q}
}

func (m *model) Follow(*rapid.T) { m.follow() }

func (m *model) Pass(t *rapid.T) {
	m.pass(time.Duration(rapid.IntRange(1, 200).Draw(t, "seconds")) * time.Second)
}

// Refresh updates some of the caches.
func (m *model) Refresh(t *rapid.T) {
	now := copied(m.s)
	for i, refresh := range []func(){
		func() { m.cache.Migrations = now.Migrations }, func() { m.cache.VMIs = now.VMIs },
		func() { m.cache.Pods = now.Pods },
		func() { m.cache.Reservations = now.Reservations }, func() { m.cache.Quotas = now.Quotas },
	} {
		if rapid.Bool().Draw(t, fmt.Sprint("cache ", i)) {
			refresh()
		}
	}
}

// Control plans from caches, and live if the plan requires it. It may die between writes.
func (m *model) Control(t *rapid.T) {
	s := copied(m.cache)
	s.Now, s.Live = m.s.Now, false
	if p := quota.MakePlan(m.estimated(s), quota.Options{}); m.carry(p,
		rapid.IntRange(0, 12).Draw(t, "dies")) && p.NeedsLive {
		m.carry(quota.MakePlan(m.estimated(m.snapshot()), quota.Options{}),
			rapid.IntRange(0, 12).Draw(t, "dies"))
	}
}

// estimated adds some of the required estimates, right or wrong.
func (m *model) estimated(s quota.Snapshot) quota.Snapshot {
	s.Estimates = map[types.UID]v1alpha1.ReservedPod{}
	for _, v := range quota.VMIsToEstimate(s) {
		if rapid.Bool().Draw(m.t, "known") {
			s.Estimates[v.UID] = quota.Reserve(v1alpha1.RoleLauncher,
				target("", v.Name, "", m.size(), "1"))
		}
	}
	return s
}

// carry applies the first writes of a plan and reports whether it applied all.
func (m *model) carry(p quota.Plan, writes int) bool {
	for _, a := range p.Actions {
		if release, ok := a.(quota.ReleaseReservation); ok && writes == 1 {
			_ = m.remove(release) // its finalizer stays
			return false
		}
		if writes == 0 {
			return false
		}
		writes--
		m.judge(a)
		if err := m.do(a); err != nil {
			if !errors.Is(err, errConflict) {
				m.t.Fatal(err)
			}
			return false
		}
	}
	return true
}

// settle runs the controller until its plan is empty.
func (m *model) settle() {
	for range 4 {
		m.follow()
		m.carry(quota.MakePlan(m.snapshot(), quota.Options{}), 1<<20)
		m.Check(m.t)
	}
	if p := quota.MakePlan(m.snapshot(), quota.Options{}); len(p.Actions) > 0 {
		m.t.Fatalf("no end: %+v", p.Actions)
	}
}

// finish ends every migration and every pod that must end.
func (m *model) finish() {
	for _, one := range m.s.Migrations {
		if !one.IsFinal() {
			one.Status.Phase = kubevirtv1.MigrationFailed
			m.end(one, false)
		}
	}
	m.settle()
	for range 2 {
		for _, pod := range slices.Clone(m.s.Pods) {
			if m.loose(pod) {
				m.endPod(pod)
			}
		}
	}
	m.settle()
}

// Meddle acts as administrators and quota managers.
func (m *model) Meddle(t *rapid.T) {
	rapid.SampledFrom([]func(*rapid.T){m.Edit, m.Reset, m.Recreate, m.StopVM, m.Forget}).Draw(t,
		"meddle")(t)
}

func TestModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newModel(t)
		m.StartVM(t)
		for range 3 { // one run is too short for all outcomes of a migration
			t.Repeat(map[string]func(*rapid.T){
				"": m.Check, "start VM": m.StartVM, "start pod": m.StartPod, "stop pod": m.StopPod,
				"migrate": m.Migrate, "create": m.Create,
				"create again": m.Create,
				"finish":       m.Finish, "end pod": m.EndPod, "meddle": m.Meddle,
				"follow": m.Follow, "pass": m.Pass,
				"refresh": m.Refresh, "refresh again": m.Refresh, "control": m.Control,
				"control again": m.Control,
			})
		}
		m.settle()
		m.finish()
		m.drain()
		m.finish()
		if d := diff(m.truth, m.s.Quotas[0].Spec.Hard); d != "" {
			t.Fatalf("hard is not the base when all has ended (-base +hard):\n%s", d)
		}
		if len(m.s.Reservations) > 0 || len(m.s.Quotas[0].Annotations) > 0 {
			t.Fatalf("left behind: %v, %v", m.s.Reservations, m.s.Quotas[0].Annotations)
		}
	})
}
