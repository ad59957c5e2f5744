package quota

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	virtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kubevirttest "github.com/mooring-vm/mooring/integration/kubevirt"
	"github.com/mooring-vm/mooring/integration/kubevirt/actor"
)

// testDrain evicts all launchers at once. KubeVirt migrates their VMs through a full quota. A
// halted VM gets no reservation.
func testDrain(t *testing.T, c *kubevirttest.Cluster) {
	base := list("requests.memory", "4200Mi", "pods", "3")
	ns := c.Namespace(t, base)
	var vmis []*virtv1.VirtualMachineInstance
	nodes := map[string]string{}
	for _, name := range []string{"one", "two", "three"} {
		vmi := c.RunningVMI(t, ns, name, small())
		vmis, nodes[name] = append(vmis, vmi), vmi.Status.NodeName
	}
	if err := c.Client.Create(t.Context(), newVM(ns, "halted", virtv1.RunStrategyHalted)); err !=
		nil {
		t.Fatal(err)
	}
	for _, vmi := range vmis {
		evict(t, c, nodes[vmi.Name], vmi)
	}
	for _, vmi := range vmis {
		awaitElsewhere(t, c, vmi, nodes[vmi.Name])
	}
	awaitClean(t, c, ns, kubevirttest.QuotaName, base)
}

// TestMaintenanceOfANode drains a node with more VMs than KubeVirt migrates at once. The quota is
// full to the byte. One VM is stopped during the drain and gets no reservation. The other VMs run
// on.
func TestMaintenanceOfANode(t *testing.T) {
	c, _ := start(t)
	ns := c.Namespace(t, list("requests.memory", "64Gi", "pods", "64"))
	node := actor.NodeNames()[0]
	vms, single := startEightOn(t, c, ns, node)
	base := c.Used(t, ns)
	c.SetHard(t, ns, base)
	seen := record(t, c, ns)
	whileCordoned(t, c, node, func() {
		for _, vm := range vms {
			evict(t, c, node, vm)
		}
		eventually(t, "a reservation", func() error {
			if len(reservations(t, c, ns)) == 0 {
				return errors.New("nothing is")
			}
			return nil
		})
		wantPass(t,
			c.Client.Patch(t.Context(), single, merge(`{"spec": {"runStrategy": "Halted"}}`)))
		for _, vm := range vms {
			was := vm.UID
			awaitElsewhere(t, c, vm, node)
			if vm.UID != was {
				t.Errorf("%s has restarted", vm.Name)
			}
		}
		awaitStopped(t, c, single)
	})
	awaitClean(t, c, ns, kubevirttest.QuotaName, base)
	if raised := seen().check(t, []version{{0, base}}); raised == 0 {
		t.Error("the quota was never raised")
	}
	all := &virtv1.VirtualMachineInstanceMigrationList{}
	if err := c.Client.List(t.Context(), all, client.InNamespace(ns)); err != nil {
		t.Fatal(err)
	}
	for _, m := range all.Items {
		if m.Spec.VMIName == single.Name || m.Status.Phase != virtv1.MigrationSucceeded {
			t.Errorf("the migration of %s is %s", m.Spec.VMIName, m.Status.Phase)
		}
	}
}

// TestSlotsFollowKubeVirt raises KubeVirt's limit of migrations from zero. No other event follows,
// so only the watch of the KubeVirt object can raise the quota.
func TestSlotsFollowKubeVirt(t *testing.T) {
	c, _ := startGuarded(t)
	c.Configure(t, atOnce(0))
	ns := c.Namespace(t, full())
	m := c.Migrate(t, c.RunningVMI(t, ns, "vm", small()))
	eventually(t, "the migration to wait for a slot", func() error {
		all := reservations(t, c, ns)
		if len(all) != 1 || !slices.ContainsFunc(all[0].Status.Conditions,
			func(c metav1.Condition) bool { return c.Reason == "WaitingForSlot" }) {
			return fmt.Errorf("%+v", all)
		}
		return nil
	})
	if hard := quotaOf(t, c, ns, kubevirttest.QuotaName).Spec.Hard; !equality.Semantic.DeepEqual(
		hard, full()) {
		t.Errorf("hard %v, want the base %v", hard, full())
	}
	c.Configure(t, atOnce(1))
	m.Await(t, virtv1.MigrationSucceeded)
	awaitClean(t, c, ns, kubevirttest.QuotaName, full())
}

// atOnce is a patch of the KubeVirt object that limits the migrations at once.
func atOnce(n int) string {
	return fmt.Sprintf(
		`{"spec": {"configuration": {"migrations": {"parallelMigrationsPerCluster": %d}}}}`, n)
}

// startEightOn starts eight VMs on a node. The last one belongs to a VirtualMachine.
func startEightOn(
	t *testing.T, c *kubevirttest.Cluster, ns, node string,
) ([]*virtv1.VirtualMachineInstance, *virtv1.VirtualMachine) {
	t.Helper()
	single := newVM(ns, "single", virtv1.RunStrategyAlways)
	var vms []*virtv1.VirtualMachineInstance
	whileCordoned(t, c, actor.NodeNames()[1], func() {
		wantPass(t, c.Client.Create(t.Context(), single))
		for i := range 7 {
			vms = append(vms, c.VMI(t, ns, fmt.Sprintf("vm-%d", i), small()))
		}
		for _, vm := range vms {
			c.AwaitRunning(t, vm)
		}
		awaitVMRunning(t, c, single)
	})
	for _, vm := range append([]*virtv1.VirtualMachineInstance{awaitInstance(t, c, single)},
		vms...) {
		if vm.Status.NodeName != node {
			t.Fatalf("%s runs on %s, want %s", vm.Name, vm.Status.NodeName, node)
		}
	}
	return vms, single
}

// evict evicts a VM's launcher from a node. KubeVirt answers with a migration.
func evict(t *testing.T, c *kubevirttest.Cluster, node string, vmi *virtv1.VirtualMachineInstance) {
	t.Helper()
	for _, pod := range c.Launchers(t, vmi) {
		if pod.Spec.NodeName != node || pod.Status.Phase != corev1.PodRunning {
			continue
		}
		err := c.Client.SubResource("eviction").Create(t.Context(), &pod, &policyv1.Eviction{})
		if !apierrors.IsTooManyRequests(err) {
			t.Fatalf("%s: got %v, want TooManyRequests", pod.Name, err)
		}
		return
	}
	t.Fatalf("%s does not run on %s", vmi.Name, node)
}

// awaitElsewhere returns when the VM runs on another node.
func awaitElsewhere(
	t *testing.T, c *kubevirttest.Cluster, vmi *virtv1.VirtualMachineInstance, node string,
) {
	t.Helper()
	eventually(t, vmi.Name+" to run on another node", func() error {
		if err := c.Client.Get(t.Context(), client.ObjectKeyFromObject(vmi), vmi); err != nil {
			return err
		}
		if vmi.Status.Phase != virtv1.Running || vmi.Status.NodeName == node {
			return fmt.Errorf("it is %s on %s", vmi.Status.Phase, vmi.Status.NodeName)
		}
		return nil
	})
}
