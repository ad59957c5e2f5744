package kubevirttest

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	virtv1 "kubevirt.io/api/core/v1"
)

func memory(quantity string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceRequestsMemory: resource.MustParse(quantity)}
}

func awaitEnded(t *testing.T, c *Cluster, pod *corev1.Pod) {
	t.Helper()
	Eventually(t, "launcher "+pod.Name+" to end", func() bool {
		c.get(t, pod)
		return pod.Status.Phase == corev1.PodSucceeded
	})
}

// wantNode checks the VMI's current node.
func wantNode(t *testing.T, c *Cluster, vmi *virtv1.VirtualMachineInstance, want string) {
	t.Helper()
	c.get(t, vmi)
	if !vmi.IsRunning() || vmi.Status.NodeName != want {
		t.Errorf("VMI %s on node %q, want it to run on %q", vmi.Status.Phase, vmi.Status.NodeName,
			want)
	}
}

func TestMigrationSucceeds(t *testing.T) {
	c := Start(t)
	vmi := c.RunningVMI(t, c.Namespace(t, memory("4Gi")), "vm", small())
	m := c.Migrate(t, vmi)
	m.Await(t, virtv1.MigrationSucceeded)
	target := m.Target(t)
	if target == nil || target.Spec.NodeName == vmi.Status.NodeName {
		t.Fatalf("target %v, want a pod on another node than %q", target, vmi.Status.NodeName)
	}
	wantNode(t, c, vmi, target.Spec.NodeName)
	awaitEnded(t, c, m.Source(t))
}

// TestMigrationIsRejected fills a quota. virt-controller reports the rejection, and continues when
// the quota grows.
func TestMigrationIsRejected(t *testing.T) {
	c := Start(t)
	ns := c.Namespace(t, memory("2Gi"))
	m := c.Migrate(t, c.RunningVMI(t, ns, "vm", small()))
	m.AwaitRejected(t)
	if got := m.Get(t).Status.Phase; got != virtv1.MigrationPending {
		t.Errorf("phase %s, want %s", got, virtv1.MigrationPending)
	}
	if target := m.Target(t); target != nil {
		t.Errorf("target %s is there", target.Name)
	}
	c.SetHard(t, ns, memory("3Gi"))
	m.Await(t, virtv1.MigrationSucceeded)
	if Rejected(m.Get(t)) {
		t.Error("a migration that has succeeded is still rejected")
	}
}

// TestMigrationGoesStepByStep also checks the quota's usage. The source counts until its launcher
// ends.
func TestMigrationGoesStepByStep(t *testing.T) {
	c := Start(t)
	ns := c.Namespace(t, memory("4Gi"))
	vmi := c.RunningVMI(t, ns, "vm", small())
	one := c.Used(t, ns)[corev1.ResourceRequestsMemory]
	two := one.DeepCopy()
	two.Add(one)
	steps := []virtv1.VirtualMachineInstanceMigrationPhase{
		virtv1.MigrationPreparingTarget, virtv1.MigrationTargetReady, virtv1.MigrationRunning,
	}
	m := c.MigrateUntil(t, vmi, steps[0])
	for _, phase := range steps {
		m.Until(t, phase)
		m.Await(t, phase)
		wantNode(t, c, vmi, vmi.Status.NodeName)
	}
	source := m.Source(t)
	c.Keep(t, source)
	m.GoOn(t)
	m.Await(t, virtv1.MigrationSucceeded)
	awaitUsed(t, c, ns, two)
	c.Release(t, source)
	awaitEnded(t, c, source)
	awaitUsed(t, c, ns, one)
}

func awaitUsed(t *testing.T, c *Cluster, namespace string, want resource.Quantity) {
	t.Helper()
	Eventually(t, "the quota to count "+want.String(), func() bool {
		used := c.Used(t, namespace)[corev1.ResourceRequestsMemory]
		return used.Cmp(want) == 0
	})
}

func TestMigrationFails(t *testing.T) {
	for _, phase := range []virtv1.VirtualMachineInstanceMigrationPhase{
		virtv1.MigrationPreparingTarget, virtv1.MigrationRunning} {
		t.Run(string(phase), func(t *testing.T) {
			c := Start(t)
			vmi := c.RunningVMI(t, c.Namespace(t, nil), "vm", small())
			m := c.MigrateUntil(t, vmi, phase)
			m.Await(t, phase)
			m.Fail(t, "the guest is too busy")
			m.Await(t, virtv1.MigrationFailed)
			awaitEnded(t, c, m.Target(t))
			wantNode(t, c, vmi, vmi.Status.NodeName)
			if got := vmi.Status.MigrationState.FailureReason; got != "the guest is too busy" {
				t.Errorf("failed because %q", got)
			}
		})
	}
}

func TestRejectedMigrationIsAborted(t *testing.T) {
	c := Start(t)
	vmi := c.RunningVMI(t, c.Namespace(t, memory("2Gi")), "vm", small())
	m := c.Migrate(t, vmi)
	m.AwaitRejected(t)
	m.Abort(t)
	m.AwaitGone(t)
	wantNode(t, c, vmi, vmi.Status.NodeName)
}

func TestRunningMigrationIsAborted(t *testing.T) {
	c := Start(t)
	vmi := c.RunningVMI(t, c.Namespace(t, nil), "vm", small())
	m := c.MigrateUntil(t, vmi, virtv1.MigrationRunning)
	m.Await(t, virtv1.MigrationRunning)
	target := m.Target(t)
	m.Abort(t)
	m.AwaitGone(t)
	awaitEnded(t, c, target)
	wantNode(t, c, vmi, vmi.Status.NodeName)
	if got := vmi.Status.MigrationState.AbortStatus; got != virtv1.MigrationAbortSucceeded {
		t.Errorf("abort status %q, want %q", got, virtv1.MigrationAbortSucceeded)
	}
}
