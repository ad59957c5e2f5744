package kubevirttest

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	virtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mooring-vm/mooring/integration/kubevirt/actor"
)

// Migration is a migration of a VMI.
type Migration struct {
	cluster *Cluster
	vmi     *virtv1.VirtualMachineInstance
	object  *virtv1.VirtualMachineInstanceMigration
}

// Migrate makes a migration without a stop.
func (c *Cluster) Migrate(t testing.TB, vmi *virtv1.VirtualMachineInstance) *Migration {
	t.Helper()
	return c.migrate(t, vmi, nil)
}

// MigrateUntil makes a migration that stops at a phase: PreparingTarget, TargetReady or Running.
func (c *Cluster) MigrateUntil(
	t testing.TB, vmi *virtv1.VirtualMachineInstance,
	phase virtv1.VirtualMachineInstanceMigrationPhase,
) *Migration {
	t.Helper()
	return c.migrate(t, vmi, map[string]string{actor.Until: string(phase)})
}

func (c *Cluster) migrate(
	t testing.TB, vmi *virtv1.VirtualMachineInstance, annotations map[string]string,
) *Migration {
	t.Helper()
	m := &virtv1.VirtualMachineInstanceMigration{
		ObjectMeta: metav1.ObjectMeta{Namespace: vmi.Namespace, GenerateName: vmi.Name + "-",
			Annotations: annotations},
		Spec: virtv1.VirtualMachineInstanceMigrationSpec{VMIName: vmi.Name},
	}
	if err := c.Client.Create(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	return &Migration{cluster: c, vmi: vmi.DeepCopy(), object: m}
}

// Get returns the migration's current object.
func (m *Migration) Get(t testing.TB) *virtv1.VirtualMachineInstanceMigration {
	t.Helper()
	m.cluster.get(t, m.object)
	return m.object.DeepCopy()
}

// Await returns when the migration reaches a phase. It fails t if the migration ends otherwise.
func (m *Migration) Await(t testing.TB, phase virtv1.VirtualMachineInstanceMigrationPhase) {
	t.Helper()
	Eventually(t, "migration "+m.object.Name+" to be "+string(phase), func() bool {
		got := m.Get(t).Status.Phase
		if got != phase && m.object.IsFinal() {
			t.Fatalf("migration %s is %s, want %s", m.object.Name, got, phase)
		}
		return got == phase
	})
}

// AwaitRejected returns when virt-controller reports that a quota rejects the migration's target.
func (m *Migration) AwaitRejected(t testing.TB) {
	t.Helper()
	Eventually(t, "migration "+m.object.Name+" to be rejected",
		func() bool { return Rejected(m.Get(t)) })
}

// Rejected reports whether a quota rejects the migration's target, by virt-controller's condition.
func Rejected(m *virtv1.VirtualMachineInstanceMigration) bool {
	return slices.ContainsFunc(m.Status.Conditions,
		func(c virtv1.VirtualMachineInstanceMigrationCondition) bool {
			return c.Type == virtv1.VirtualMachineInstanceMigrationRejectedByResourceQuota &&
				c.Status == corev1.ConditionTrue
		})
}

// Until lets a stopped migration proceed to another phase.
func (m *Migration) Until(t testing.TB, phase virtv1.VirtualMachineInstanceMigrationPhase) {
	t.Helper()
	m.cluster.annotate(t, m.object, actor.Until, new(string(phase)))
}

// GoOn lets a stopped migration proceed to its end.
func (m *Migration) GoOn(t testing.TB) {
	t.Helper()
	m.cluster.annotate(t, m.object, actor.Until, nil)
}

// Fail makes the migration fail as soon as its target is prepared.
func (m *Migration) Fail(t testing.TB, reason string) {
	t.Helper()
	m.cluster.annotate(t, m.object, actor.Fail, &reason)
}

// Abort deletes the migration. Its phase decides the effect.
func (m *Migration) Abort(t testing.TB) {
	t.Helper()
	if err := m.cluster.Client.Delete(t.Context(), m.object); err != nil {
		t.Fatal(err)
	}
}

// AwaitGone returns when the migration is deleted, as after an abort.
func (m *Migration) AwaitGone(t testing.TB) {
	t.Helper()
	Eventually(t, "migration "+m.object.Name+" to be gone", func() bool {
		err := m.cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(m.object), m.object)
		if client.IgnoreNotFound(err) != nil {
			t.Fatal(err)
		}
		return err != nil
	})
}

// Target returns the target pod, or nil if there is none.
func (m *Migration) Target(t testing.TB) *corev1.Pod {
	t.Helper()
	for _, p := range m.cluster.Launchers(t, m.vmi) {
		if p.Labels[virtv1.MigrationJobLabel] == string(m.object.UID) {
			return &p
		}
	}
	return nil
}

// Source returns the source pod, or nil if there is none.
func (m *Migration) Source(t testing.TB) *corev1.Pod {
	t.Helper()
	state := m.Get(t).Status.MigrationState
	for _, p := range m.cluster.Launchers(t, m.vmi) {
		if state != nil && p.Name == state.SourcePod {
			return &p
		}
	}
	return nil
}
