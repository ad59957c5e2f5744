package quota

import (
	"testing"

	virtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mooring-vm/mooring/api/v1alpha1"
	kubevirttest "github.com/mooring-vm/mooring/integration/kubevirt"
)

// testAbortedInEachPhase aborts a migration in each phase. KubeVirt acts on an early abort only
// once the migration runs.
func testAbortedInEachPhase(t *testing.T, c *kubevirttest.Cluster) {
	for _, phase := range []virtv1.VirtualMachineInstanceMigrationPhase{
		virtv1.MigrationPreparingTarget, virtv1.MigrationTargetReady, virtv1.MigrationRunning,
	} {
		t.Run(string(phase), func(t *testing.T) {
			ns := c.Namespace(t, full())
			m := c.MigrateUntil(t, c.RunningVMI(t, ns, "vm", small()), phase)
			m.Await(t, phase)
			awaitPhase(t, c, ns, v1alpha1.PhaseCharged)
			m.Abort(t)
			if phase != virtv1.MigrationRunning {
				m.GoOn(t)
			}
			m.AwaitGone(t)
			awaitClean(t, c, ns, kubevirttest.QuotaName, full())
		})
	}
}

// testAbortedWhilePending aborts a migration before its target pod exists.
func testAbortedWhilePending(t *testing.T, c *kubevirttest.Cluster) {
	ns := c.Namespace(t, full())
	m := c.Migrate(t, c.RunningVMI(t, ns, "vm", small()))
	m.Abort(t)
	m.AwaitGone(t)
	awaitClean(t, c, ns, kubevirttest.QuotaName, full())
}

// testVMIGoneAtCompletion deletes the VMI when its migration succeeds.
func testVMIGoneAtCompletion(t *testing.T, c *kubevirttest.Cluster) {
	ns := c.Namespace(t, full())
	m, _ := charged(t, c, ns)
	m.Until(t, virtv1.MigrationRunning)
	m.Await(t, virtv1.MigrationRunning)
	m.GoOn(t)
	vmi := kubevirttest.NewVMI(ns, "vm", small())
	if err := c.Client.Delete(t.Context(), vmi); client.IgnoreNotFound(err) != nil {
		t.Fatal(err)
	}
	awaitClean(t, c, ns, kubevirttest.QuotaName, full())
}
