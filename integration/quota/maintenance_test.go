package quota

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	virtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mooring-vm/mooring/api/v1alpha1"
	kubevirttest "github.com/mooring-vm/mooring/integration/kubevirt"
	"github.com/mooring-vm/mooring/integration/kubevirt/actor"
	"github.com/mooring-vm/mooring/quota"
)

// TestMaintenanceShare expects migrations to use the maintenance share first. Only the rest raises
// the quota.
func TestMaintenanceShare(t *testing.T) {
	c, _ := start(t)
	ns := c.Namespace(t, list("limits.memory", "64Gi"))
	first := c.RunningVMI(t, ns, "first", small())
	launcher := c.Used(t, ns)
	base := times(launcher, 4)
	c.SetHard(t, ns, base)
	setShare(t, c, ns, `{"limit":{"limitsMemoryPercent":"25"}}`)
	second := c.RunningVMI(t, ns, "second", small())

	one := c.MigrateUntil(t, first, virtv1.MigrationPreparingTarget)
	one.Await(t, virtv1.MigrationPreparingTarget)
	awaitPhase(t, c, ns, v1alpha1.PhaseCharged)
	if hard := quotaOf(t, c, ns, kubevirttest.QuotaName).Spec.Hard; !equality.Semantic.DeepEqual(
		hard, base) {
		t.Errorf("hard is %v: the share has room for one migration, and the base is %v", hard, base)
	}
	two := c.MigrateUntil(t, second, virtv1.MigrationPreparingTarget)
	two.Await(t, virtv1.MigrationPreparingTarget)
	awaitHard(t, c, ns, kubevirttest.QuotaName, times(launcher, 5))
	one.GoOn(t)
	two.GoOn(t)
	awaitClean(t, c, ns, kubevirttest.QuotaName, base)
}

// TestUpgrade is scenario 6 of the share's proposal. A cluster upgrade drains node after node and
// replaces the controller. VMs in the other half of the quota run on, and the quota does not
// change.
func TestUpgrade(t *testing.T) {
	c, p := startGuarded(t)
	ns := c.Namespace(t, list("limits.cpu", "64", "limits.memory", "64Gi"))
	vm1, vm2 := proposalVM(ns, "vm1"), proposalVM(ns, "vm2")
	nodes := actor.NodeNames()
	var base corev1.ResourceList
	whileCordoned(t, c, nodes[1], func() {
		wantPass(t, c.Client.Create(t.Context(), vm1))
		awaitVMRunning(t, c, vm1)
		base = times(c.Used(t, ns), 4)
		c.SetHard(t, ns, base)
		setShare(t, c, ns, `{"limit":{"limitsCpuPercent":"50","limitsMemoryPercent":50}}`)
		wantPass(t, c.Client.Create(t.Context(), vm2))
		awaitVMRunning(t, c, vm2)
	})
	wantRefusal(t, c.Client.Create(t.Context(), proposalVM(ns, "vm3")), "VirtualMachine vm3",
		"limits.cpu: requested", "limits.memory: requested")

	seen := record(t, c, ns)
	for _, node := range nodes {
		p.stop(t)
		p.start(t)
		whileCordoned(t, c, node, func() { drain(t, c, node, vm1, vm2) })
		awaitClean(t, c, ns, kubevirttest.QuotaName, base)
	}
	for _, q := range seen().quotas {
		if !equality.Semantic.DeepEqual(q.hard, base) {
			t.Errorf("at %d hard was %v, and the base is %v", q.at, q.hard, base)
		}
	}
}

// proposalVM returns a VM of the proposal.
func proposalVM(namespace, name string) *virtv1.VirtualMachine {
	vm := newVM(namespace, name, virtv1.RunStrategyAlways)
	domain := &vm.Spec.Template.Spec.Domain
	domain.CPU.Cores, domain.Resources.Limits = 1, list("cpu", "1", "memory", "1Gi")
	return vm
}

// drain evicts VMs from their node and returns when they run elsewhere.
func drain(t *testing.T, c *kubevirttest.Cluster, node string, vms ...*virtv1.VirtualMachine) {
	t.Helper()
	for _, vm := range vms {
		evict(t, c, node, awaitInstance(t, c, vm))
	}
	for _, vm := range vms {
		awaitElsewhere(t, c, awaitInstance(t, c, vm), node)
	}
}

// whileCordoned calls do while a node is cordoned.
func whileCordoned(t *testing.T, c *kubevirttest.Cluster, name string, do func()) {
	t.Helper()
	node := &corev1.Node{}
	node.Name = name
	change(t, c, node, func() { node.Spec.Unschedulable = true })
	defer change(t, c, node, func() { node.Spec.Unschedulable = false })
	do()
}

// setShare annotates a namespace with a share and returns when the controller has written the
// resulting amounts.
func setShare(t *testing.T, c *kubevirttest.Cluster, namespace, text string) {
	t.Helper()
	ns := &corev1.Namespace{}
	ns.Name = namespace
	change(t, c, ns, func() {
		if ns.Annotations == nil {
			ns.Annotations = map[string]string{}
		}
		ns.Annotations[quota.MaintenanceAnnotation] = text
	})
	eventually(t, "the shares to be written", func() error {
		if err := c.Client.Get(t.Context(), client.ObjectKeyFromObject(ns), ns); err != nil {
			return err
		}
		for _, name := range []string{"vmAvailable", "maintenanceAvailable"} {
			if ns.Annotations[quota.DefaultPrefix+name] == "" {
				return errors.New(name + " is missing")
			}
		}
		return nil
	})
}

// times returns the charge of n launchers.
func times(launcher corev1.ResourceList, n int64) corev1.ResourceList {
	sum := corev1.ResourceList{}
	for name, q := range launcher {
		q.Mul(n)
		sum[name] = q
	}
	return sum
}
