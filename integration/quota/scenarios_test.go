package quota

import (
	"errors"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	virtv1 "kubevirt.io/api/core/v1"
	snapshotv1beta1 "kubevirt.io/api/snapshot/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mooring-vm/mooring/api/v1alpha1"
	hackkubevirt "github.com/mooring-vm/mooring/hack/kubevirt"
	kubevirttest "github.com/mooring-vm/mooring/integration/kubevirt"
)

// TestScenarios runs the test plan of the maintenance share's proposal, except scenario 6
// (TestUpgrade). Two VMs of 1 CPU and 1Gi use one half of a quota, and migrations the other. The
// proposal ignores the VMs' overhead, and with it they exceed one half of its 5Gi. So the quota
// here fits four launchers.
func TestScenarios(t *testing.T) {
	c, _ := startGuarded(t)
	c.Configure(t, `{"spec": {"configuration": {
		"developerConfiguration": {"featureGates": ["Snapshot"]},
		"migrations": {"parallelMigrationsPerCluster": 20, "parallelOutboundMigrationsPerNode": 10}}}}`)
	v := newVirtctl(t, c)
	inParallel(t, c, map[string]func(*testing.T, *kubevirttest.Cluster){
		"1 a migration":                v.testScenario1,
		"2 beside another VM":          v.testScenario2,
		"3 a third VM":                 v.testScenario3,
		"4 the share is full":          v.testScenario4,
		"5 restored":                   v.testScenario5,
		"5 restored, seen by no guard": v.testScenario5Unseen,
	})
}

// plan is the initial state of the scenarios.
type plan struct {
	ns       string
	vm1, vm2 *virtv1.VirtualMachine
	// the charge of one launcher, and the quota of four launchers
	launcher, base corev1.ResourceList
}

func (v *virtctl) plan(t *testing.T, c *kubevirttest.Cluster, percent int) plan {
	t.Helper()
	ns := v.namespace(t, c)
	p := plan{ns: ns, vm1: proposalVM(ns, "vm1"), vm2: proposalVM(ns, "vm2")}
	c.Quota(t, &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: kubevirttest.QuotaName},
		Spec: corev1.ResourceQuotaSpec{
			Hard: list("limits.cpu", "64", "limits.memory", "64Gi")},
	})
	v.startAll(t, c, p.vm1)
	p.launcher = c.Used(t, ns)
	p.base = times(p.launcher, 4)
	c.SetHard(t, ns, p.base)
	setShare(t, c, ns,
		fmt.Sprintf(`{"limit":{"limitsCpuPercent":"%d","limitsMemoryPercent":%[1]d,"strict":%t}}`,
			percent, v.strict))
	v.startAll(t, c, p.vm2)
	return p
}

// refused returns the parts of the refusal for a VM beyond the VMs' share.
func refused(vm string) []string {
	return []string{
		"VirtualMachine " + vm + " does not fit: it needs more than is free",
		"limits.cpu: requested", "limits.memory: requested", "free 0",
		"Stop another VM, wait until migrations have ended, or raise the quota",
	}
}

// wantQuotaUnchanged checks that the quota always equals its base.
func (p plan) wantQuotaUnchanged(t *testing.T, c *kubevirttest.Cluster, seen func() history) {
	t.Helper()
	awaitClean(t, c, p.ns, kubevirttest.QuotaName, p.base)
	for _, q := range seen().quotas {
		if !equality.Semantic.DeepEqual(q.hard, p.base) {
			t.Fatalf("at %d hard was %v, and the base is %v", q.at, q.hard, p.base)
		}
	}
}

// migrateAndWait migrates a VM and returns when it runs on another node.
func migrateAndWait(t *testing.T, c *kubevirttest.Cluster, vm *virtv1.VirtualMachine) {
	t.Helper()
	was := awaitInstance(t, c, vm)
	c.Migrate(t, was).Await(t, virtv1.MigrationSucceeded)
	is := was.DeepCopy()
	awaitElsewhere(t, c, is, was.Status.NodeName)
	if is.UID != was.UID {
		t.Errorf("%s has restarted", vm.Name)
	}
}

func (v *virtctl) testScenario1(t *testing.T, c *kubevirttest.Cluster) {
	p := v.plan(t, c, 50)
	seen := record(t, c, p.ns)
	migrateAndWait(t, c, p.vm1)
	p.wantQuotaUnchanged(t, c, seen)
}

// testScenario2 suspends, stops, starts, restarts and edits VM1 while VM2 migrates. VM2 also starts
// migrating while VM1 restarts and stops.
func (v *virtctl) testScenario2(t *testing.T, c *kubevirttest.Cluster) {
	p := v.plan(t, c, 50)
	seen := record(t, c, p.ns)
	m := c.MigrateUntil(t, awaitInstance(t, c, p.vm2), virtv1.MigrationPreparingTarget)
	m.Await(t, virtv1.MigrationPreparingTarget)
	awaitPhase(t, c, p.ns, v1alpha1.PhaseCharged)
	suspend(t, c, p.vm1)
	wantPass(t, v.stop(t, p.vm1))
	awaitStopped(t, c, p.vm1)
	wantPass(t, v.start(t, p.vm1))
	awaitVMRunning(t, c, p.vm1)
	was := awaitInstance(t, c, p.vm1).UID
	wantPass(t, v.restart(t, p.vm1))
	awaitRestarted(t, c, p.vm1, was)
	larger := merge(
		`{"spec": {"template": {"spec": {"domain": {"cpu": {"cores": 2}, "resources": {"limits": ` +
			`{"cpu": "2"}}}}}}}`)
	wantRefusal(t, c.Client.Patch(t.Context(), p.vm1.DeepCopy(), larger), "VirtualMachine vm1",
		"it grows by more than is free", "limits.cpu: requested 1, free 0")
	wantPass(t, c.Client.Patch(t.Context(), p.vm1.DeepCopy(),
		merge(`{"metadata": {"labels": {"a": "b"}}}`)))
	m.GoOn(t)
	m.Await(t, virtv1.MigrationSucceeded)

	was = awaitInstance(t, c, p.vm1).UID
	wantPass(t, v.restart(t, p.vm1))
	migrateAndWait(t, c, p.vm2)
	awaitRestarted(t, c, p.vm1, was)

	release := v.beginStop(t, c, p.vm1)
	migrateAndWait(t, c, p.vm2)
	release()
	awaitStopped(t, c, p.vm1)
	p.wantQuotaUnchanged(t, c, seen)
}

// testScenario3 refuses VM3 while VM1 runs, is suspended, or is stopping.
func (v *virtctl) testScenario3(t *testing.T, c *kubevirttest.Cluster) {
	p := v.plan(t, c, 50)
	vm3 := proposalVM(p.ns, "vm3")
	create := func() error { return c.Client.Create(t.Context(), vm3.DeepCopy()) }
	wantRefusal(t, create(), refused("vm3")...)
	suspend(t, c, p.vm1)
	wantRefusal(t, create(), refused("vm3")...)
	release := v.beginStop(t, c, p.vm1)
	wantRefusal(t, create(), refused("vm3")...)
	release()
	eventually(t, "VM3 to be admitted", create)
	awaitVMRunning(t, c, vm3)
	awaitStopped(t, c, p.vm1)
	wantGuardRefusal(t, v.start(t, p.vm1), refused("vm1")...)
}

// testScenario4 uses a share of one quarter, because one half fits two migrations. The proposal
// refuses VM2's migration. Mooring raises the quota by the missing amount. A third VM then fits,
// and a fourth gets no part of the raise.
func (v *virtctl) testScenario4(t *testing.T, c *kubevirttest.Cluster) {
	p := v.plan(t, c, 25)
	one := c.MigrateUntil(t, awaitInstance(t, c, p.vm1), virtv1.MigrationPreparingTarget)
	one.Await(t, virtv1.MigrationPreparingTarget)
	awaitPhase(t, c, p.ns, v1alpha1.PhaseCharged)
	awaitHard(t, c, p.ns, kubevirttest.QuotaName, p.base)
	two := c.MigrateUntil(t, awaitInstance(t, c, p.vm2), virtv1.MigrationPreparingTarget)
	two.Await(t, virtv1.MigrationPreparingTarget)
	awaitHard(t, c, p.ns, kubevirttest.QuotaName, times(p.launcher, 5))
	v.startAll(t, c, proposalVM(p.ns, "vm3"))
	wantRefusal(t, c.Client.Create(t.Context(), proposalVM(p.ns, "vm4")), refused("vm4")...)
	for _, m := range []*kubevirttest.Migration{one, two} {
		m.GoOn(t)
		m.Await(t, virtv1.MigrationSucceeded)
	}
	awaitClean(t, c, p.ns, kubevirttest.QuotaName, p.base)
	wantRefusal(t, c.Client.Create(t.Context(), proposalVM(p.ns, "vm4")), refused("vm4")...)
}

// testScenario5 makes VM4 from a snapshot of VM1. KubeVirt halts a VM restored under a new name, so
// the guard refuses its start until VM2 stops.
func (v *virtctl) testScenario5(t *testing.T, c *kubevirttest.Cluster) {
	p := v.plan(t, c, 50)
	vm4 := restoreAs(t, c, p.vm1, "vm4")
	wantGuardRefusal(t, v.start(t, vm4), refused("vm4")...)
	wantPass(t, v.stop(t, p.vm2))
	awaitStopped(t, c, p.vm2)
	eventually(t, "VM4 to be allowed to start", func() error { return v.start(t, vm4) })
	awaitVMRunning(t, c, vm4)
}

// testScenario5Unseen restores VM4 by virt-controller, as Harvester does. The VM guard does not
// review it. The launcher is rejected and the controller halts the VM, as in the proposal.
func (v *virtctl) testScenario5Unseen(t *testing.T, c *kubevirttest.Cluster) {
	p := v.plan(t, c, 50)
	vm4 := proposalVM(p.ns, "vm4")
	wantPass(t, as(t, c, "kubevirt-controller").Create(t.Context(), vm4))
	eventually(t, "VM4 to be halted", func() error { return checkHaltedWithEvent(t, c, vm4) })
	for _, vm := range []*virtv1.VirtualMachine{p.vm1, p.vm2} {
		if vmi := awaitInstance(t, c, vm); !vmi.IsRunning() {
			t.Errorf("%s is %s", vm.Name, vmi.Status.Phase)
		}
	}
}

// suspend sets the suspended state in place of virt-handler, because this cluster has none.
func suspend(t *testing.T, c *kubevirttest.Cluster, vm *virtv1.VirtualMachine) {
	t.Helper()
	handler := as(t, c, hackkubevirt.HandlerAccount)
	eventually(t, vm.Name+" to be suspended", func() error {
		vmi := awaitInstance(t, c, vm)
		vmi.Status.Conditions = append(vmi.Status.Conditions,
			virtv1.VirtualMachineInstanceCondition{
				Type: virtv1.VirtualMachineInstancePaused, Status: corev1.ConditionTrue,
				Reason: "PausedByUser", LastTransitionTime: metav1.Now(),
			})
		return handler.Update(t.Context(), vmi)
	})
	eventually(t, vm.Name+" to be known to be suspended", func() error {
		if err := c.Client.Get(t.Context(), client.ObjectKeyFromObject(vm), vm); err != nil {
			return err
		}
		if got := vm.Status.PrintableStatus; got != virtv1.VirtualMachineStatusPaused {
			return fmt.Errorf("state %s", got)
		}
		return nil
	})
}

// as returns a client with the rights of one of KubeVirt's service accounts.
func as(t *testing.T, c *kubevirttest.Cluster, account string) client.Client {
	t.Helper()
	config := c.Plane.Config()
	config.Impersonate.UserName = "system:serviceaccount:" + hackkubevirt.Namespace + ":" + account
	its, err := client.New(config, client.Options{Scheme: c.Client.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	return its
}

// beginStop starts to stop a VM and returns while its launcher still runs. release lets the
// launcher end.
func (v *virtctl) beginStop(
	t *testing.T, c *kubevirttest.Cluster, vm *virtv1.VirtualMachine,
) (release func()) {
	t.Helper()
	vmi := awaitInstance(t, c, vm)
	pods := c.Launchers(t, vmi)
	if len(pods) != 1 {
		t.Fatalf("%s has %d launchers, want 1", vm.Name, len(pods))
	}
	c.Keep(t, &pods[0])
	wantPass(t, v.stop(t, vm))
	eventually(t, vm.Name+" to be stopping", func() error {
		if err := c.Client.Get(t.Context(), client.ObjectKeyFromObject(&pods[0]), &pods[0]); err !=
			nil {
			return err
		}
		if pods[0].DeletionTimestamp == nil {
			return errors.New("its launcher is not being deleted")
		}
		return nil
	})
	return func() { c.Release(t, &pods[0]) }
}

// awaitStopped returns when the VM has no instance.
func awaitStopped(t *testing.T, c *kubevirttest.Cluster, vm *virtv1.VirtualMachine) {
	t.Helper()
	eventually(t, vm.Name+" to be stopped", func() error {
		vmi := &virtv1.VirtualMachineInstance{}
		err := c.Client.Get(t.Context(), client.ObjectKeyFromObject(vm), vmi)
		if err == nil {
			return fmt.Errorf("its instance is %s", vmi.Status.Phase)
		}
		return client.IgnoreNotFound(err)
	})
}

// restoreAs returns a VM made by virt-controller from a snapshot of another VM. The VM has no
// volume, so it needs no storage.
func restoreAs(
	t *testing.T, c *kubevirttest.Cluster, of *virtv1.VirtualMachine, name string,
) *virtv1.VirtualMachine {
	t.Helper()
	snapshot := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"source": map[string]any{"apiGroup": "kubevirt.io", "kind": "VirtualMachine",
			"name": of.Name},
	}}}
	snapshot.SetGroupVersionKind(snapshotv1beta1.SchemeGroupVersion.WithKind(
		"VirtualMachineSnapshot"))
	snapshot.SetNamespace(of.Namespace)
	snapshot.SetName("snapshot")
	eventually(t, "snapshots to be allowed", func() error {
		return c.Client.Create(t.Context(), snapshot)
	})
	awaitTrue(t, c, snapshot, "readyToUse")
	r := restore(of.Namespace, snapshot.GetName())
	if err := unstructured.SetNestedField(r.Object, name, "spec", "target", "name"); err != nil {
		t.Fatal(err)
	}
	wantPass(t, c.Client.Create(t.Context(), r))
	awaitTrue(t, c, r, "complete")
	vm := &virtv1.VirtualMachine{}
	if err := c.Client.Get(t.Context(), client.ObjectKey{Namespace: of.Namespace, Name: name},
		vm); err != nil {
		t.Fatal(err)
	}
	return vm
}

// awaitTrue returns when the status field of an object is true.
func awaitTrue(t *testing.T, c *kubevirttest.Cluster, o *unstructured.Unstructured, what string) {
	t.Helper()
	eventually(t, o.GetKind()+" to be "+what, func() error {
		if err := c.Client.Get(t.Context(), client.ObjectKeyFromObject(o), o); err != nil {
			return err
		}
		if so, _, _ := unstructured.NestedBool(o.Object, "status", what); !so {
			return fmt.Errorf("its status is %v", o.Object["status"])
		}
		return nil
	})
}
