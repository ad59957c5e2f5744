package quota

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	virtv1 "kubevirt.io/api/core/v1"

	"github.com/mooring-vm/mooring/api/v1alpha1"
	kubevirttest "github.com/mooring-vm/mooring/integration/kubevirt"
)

// TestStrictScenarios runs the scenarios of the maintenance share's proposal with a strict share,
// and with the proposal's own sizes.
func TestStrictScenarios(t *testing.T) {
	c, _ := startGuarded(t)
	c.Configure(t, `{"spec": {"configuration": {
		"developerConfiguration": {"featureGates": ["Snapshot"]},
		"migrations": {"parallelMigrationsPerCluster": 20, "parallelOutboundMigrationsPerNode": 10}}}}`)
	v := newVirtctl(t, c)
	v.strict = true
	inParallel(t, c, map[string]func(*testing.T, *kubevirttest.Cluster){
		"1 a migration":       v.testScenario1,
		"2 beside another VM": v.testScenario2,
		"3 a third VM":        v.testScenario3,
		"4 the share is full": v.testScenario4Strictly,
		"5 restored":          v.testScenario5,
		"6 an evacuation":     v.testScenario6,
		"nominal sizes":       v.testNominalSizes,
	})
}

// testScenario4Strictly refuses a user's migration beyond the share, as the proposal does. An
// evacuation waits until the first migration has ended. The quota never changes.
func (v *virtctl) testScenario4Strictly(t *testing.T, c *kubevirttest.Cluster) {
	p := v.plan(t, c, 25)
	seen := record(t, c, p.ns)
	one := c.MigrateUntil(t, awaitInstance(t, c, p.vm1), virtv1.MigrationPreparingTarget)
	one.Await(t, virtv1.MigrationPreparingTarget)
	awaitPhase(t, c, p.ns, v1alpha1.PhaseCharged)
	two := &virtv1.VirtualMachineInstanceMigration{ObjectMeta: metav1.ObjectMeta{Namespace: p.ns,
		Name: "two"}, Spec: virtv1.VirtualMachineInstanceMigrationSpec{VMIName: p.vm2.Name}}
	wantRefusal(t, c.Client.Create(t.Context(), two),
		"virtualmachineinstancemigrations.guard.mooring.dev", "VM vm2 cannot migrate now",
		"the maintenance share of ResourceQuota "+kubevirttest.QuotaName+" lacks limits.cpu=")

	vmi := awaitInstance(t, c, p.vm2)
	node := vmi.Status.NodeName
	evict(t, c, node, vmi)
	eventually(t, "the evacuation to wait", func() error {
		return checkWaitsForShare(reservations(t, c, p.ns))
	})
	one.GoOn(t)
	one.Await(t, virtv1.MigrationSucceeded)
	awaitElsewhere(t, c, vmi, node)
	p.wantQuotaUnchanged(t, c, seen)
}

// checkWaitsForShare returns nil if a rejected target pod waits for the share.
func checkWaitsForShare(all []v1alpha1.MigrationReservation) error {
	for _, r := range all {
		c := meta.FindStatusCondition(r.Status.Conditions, v1alpha1.ConditionWaiting)
		if c != nil && c.Status == metav1.ConditionTrue && c.Reason == "WaitingForShare" {
			return nil
		}
	}
	return fmt.Errorf("reservations %+v", all)
}

// testScenario6 evacuates both VMs at once, within the share.
func (v *virtctl) testScenario6(t *testing.T, c *kubevirttest.Cluster) {
	p := v.plan(t, c, 50)
	seen := record(t, c, p.ns)
	nodes := map[*virtv1.VirtualMachine]string{}
	for _, vm := range []*virtv1.VirtualMachine{p.vm1, p.vm2} {
		vmi := awaitInstance(t, c, vm)
		nodes[vm] = vmi.Status.NodeName
		evict(t, c, nodes[vm], vmi)
	}
	for vm, node := range nodes {
		awaitElsewhere(t, c, awaitInstance(t, c, vm), node)
	}
	p.wantQuotaUnchanged(t, c, seen)
}

// testNominalSizes uses the proposal's quota of 4 CPUs and 5Gi, half of it for migrations, and its
// VMs of 1 CPU and 1Gi. KubeVirt's overhead makes the plan impossible: the second VM does not fit
// into the VMs' half.
func (v *virtctl) testNominalSizes(t *testing.T, c *kubevirttest.Cluster) {
	ns := v.namespace(t, c)
	nominal := list("limits.cpu", "4", "limits.memory", "5Gi")
	c.Quota(t, &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: kubevirttest.QuotaName},
		Spec:       corev1.ResourceQuotaSpec{Hard: nominal},
	})
	setShare(t, c, ns,
		`{"limit":{"limitsCpuPercent":"50","limitsMemoryPercent":50,"strict":true}}`)
	vm1 := proposalVM(ns, "vm1")
	v.startAll(t, c, vm1)
	wantRefusal(t, c.Client.Create(t.Context(), proposalVM(ns, "vm2")), "VirtualMachine vm2",
		"limits.memory: requested", "of its memory are the launcher's overhead")
	migrateAndWait(t, c, vm1)
	awaitClean(t, c, ns, kubevirttest.QuotaName, nominal)
}
