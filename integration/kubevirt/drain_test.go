package kubevirttest

import (
	"testing"

	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	virtv1 "kubevirt.io/api/core/v1"
)

// TestEvictionMigrates evicts a launcher like a drain: virt-api refuses the eviction, and
// virt-controller makes a migration.
func TestEvictionMigrates(t *testing.T) {
	c := Start(t)
	vmi := c.RunningVMI(t, c.Namespace(t, nil), "vm", small())
	source, node := c.Launchers(t, vmi)[0], vmi.Status.NodeName
	err := c.Client.SubResource("eviction").Create(t.Context(), &source, &policyv1.Eviction{})
	if !apierrors.IsTooManyRequests(err) {
		t.Fatalf("got %v, want TooManyRequests", err)
	}
	Eventually(t, "the VMI to run on another node", func() bool {
		c.get(t, vmi)
		return vmi.Status.Phase == virtv1.Running && vmi.Status.NodeName != node
	})
	awaitEnded(t, c, &source)
}

// TestVirtControllerIsRestarted stops virt-controller. Migrations wait without it, and continue
// after its start.
func TestVirtControllerIsRestarted(t *testing.T) {
	c := Start(t)
	vmi := c.RunningVMI(t, c.Namespace(t, nil), "vm", small())
	if err := c.KubeVirt.StopController(t.Context()); err != nil {
		t.Error(err) // and start it for the following tests
	}
	m := c.Migrate(t, vmi)
	phase := m.Get(t).Status.Phase
	if err := c.KubeVirt.StartController(t.Context()); err != nil {
		t.Fatal(err)
	}
	if phase != virtv1.MigrationPhaseUnset {
		t.Errorf("phase %s while virt-controller was gone", phase)
	}
	m.Await(t, virtv1.MigrationSucceeded)
}
