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

// TestScenarios is the test plan of the proposal of the maintenance share, step by step, but
// for scenario 6, which is TestUpgrade. Two VMs of 1 CPU and 1Gi have one half of a quota, and
// migrations the other. The proposal counts VMs without their overhead, with which they do
// not fit one half of its 5Gi: the quota here is that of four launchers.
func TestScenarios(t *testing.T) {
	c, _ := startGuarded(t)
	configure(t, c, `{"spec": {"configuration": {
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

// plan is what the scenarios begin with.
type plan struct {
	ns             string
	vm1, vm2       *virtv1.VirtualMachine
	launcher, base corev1.ResourceList // what a launcher is charged, and the quota: four of it
}

func (v *virtctl) plan(t *testing.T, c *kubevirttest.Cluster, percent int) plan {
	t.Helper()
	ns := v.namespace(t, c)
	p := plan{ns: ns, vm1: proposed(ns, "vm1"), vm2: proposed(ns, "vm2")}
	c.Quota(t, &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: kubevirttest.QuotaName},
		Spec:       corev1.ResourceQuotaSpec{Hard: list("limits.cpu", "64", "limits.memory", "64Gi")},
	})
	v.started(t, c, p.vm1)
	p.launcher = c.Used(t, ns)
	p.base = times(p.launcher, 4)
	c.SetHard(t, ns, p.base)
	setShare(t, c, ns, fmt.Sprintf(`{"limit":{"limitsCpuPercent":"%d","limitsMemoryPercent":%[1]d}}`, percent))
	v.started(t, c, p.vm2)
	return p
}

// refused is what a user is told whose VM has no room in the VMs' share.
func refused(vm string) []string {
	return []string{
		"VirtualMachine " + vm + " does not fit: it needs more than is free", "limits.cpu: requested", "limits.memory: requested", "free 0",
		"Stop another VM, wait until migrations have ended, or raise the quota",
	}
}

// wantKept checks that the quota was never anything but its base.
func (p plan) wantKept(t *testing.T, c *kubevirttest.Cluster, seen func() history) {
	t.Helper()
	awaitClean(t, c, p.ns, kubevirttest.QuotaName, p.base)
	for _, q := range seen().quotas {
		if !equality.Semantic.DeepEqual(q.hard, p.base) {
			t.Fatalf("at %d hard was %v, and the base is %v", q.at, q.hard, p.base)
		}
	}
}

// migrated migrates a VM, and returns when it runs elsewhere.
func migrated(t *testing.T, c *kubevirttest.Cluster, vm *virtv1.VirtualMachine) {
	t.Helper()
	was := instance(t, c, vm)
	c.Migrate(t, was).Await(t, virtv1.MigrationSucceeded)
	is := was.DeepCopy()
	awaitElsewhere(t, c, is, was.Status.NodeName)
	if is.UID != was.UID {
		t.Errorf("%s has started anew", vm.Name)
	}
}

func (v *virtctl) testScenario1(t *testing.T, c *kubevirttest.Cluster) {
	p := v.plan(t, c, 50)
	seen := watching(t, c, p.ns)
	migrated(t, c, p.vm1)
	p.wantKept(t, c, seen)
}

// VM1 is suspended, stopped, started, restarted and edited while VM2 migrates, and VM2 begins
// to migrate while VM1 restarts, and while it is stopping.
func (v *virtctl) testScenario2(t *testing.T, c *kubevirttest.Cluster) {
	p := v.plan(t, c, 50)
	seen := watching(t, c, p.ns)
	m := c.MigrateUntil(t, instance(t, c, p.vm2), virtv1.MigrationPreparingTarget)
	m.Await(t, virtv1.MigrationPreparingTarget)
	awaitPhase(t, c, p.ns, v1alpha1.PhaseCharged)
	suspend(t, c, p.vm1)
	wantPass(t, v.stop(t, p.vm1))
	awaitStopped(t, c, p.vm1)
	wantPass(t, v.start(t, p.vm1))
	running(t, c, p.vm1)
	was := instance(t, c, p.vm1).UID
	wantPass(t, v.restart(t, p.vm1))
	awaitRestarted(t, c, p.vm1, was)
	larger := merge(`{"spec": {"template": {"spec": {"domain": {"cpu": {"cores": 2}, "resources": {"limits": {"cpu": "2"}}}}}}}`)
	wantRefusal(t, c.Client.Patch(t.Context(), p.vm1.DeepCopy(), larger), "VirtualMachine vm1", "it grows by more than is free", "limits.cpu: requested 1, free 0")
	wantPass(t, c.Client.Patch(t.Context(), p.vm1.DeepCopy(), merge(`{"metadata": {"labels": {"a": "b"}}}`)))
	m.GoOn(t)
	m.Await(t, virtv1.MigrationSucceeded)

	was = instance(t, c, p.vm1).UID
	wantPass(t, v.restart(t, p.vm1))
	migrated(t, c, p.vm2)
	awaitRestarted(t, c, p.vm1, was)

	release := v.stopping(t, c, p.vm1)
	migrated(t, c, p.vm2)
	release()
	awaitStopped(t, c, p.vm1)
	p.wantKept(t, c, seen)
}

// VM3 has no room while VM1 runs, while it is suspended, and while it is stopping.
func (v *virtctl) testScenario3(t *testing.T, c *kubevirttest.Cluster) {
	p := v.plan(t, c, 50)
	vm3 := proposed(p.ns, "vm3")
	create := func() error { return c.Client.Create(t.Context(), vm3.DeepCopy()) }
	wantRefusal(t, create(), refused("vm3")...)
	suspend(t, c, p.vm1)
	wantRefusal(t, create(), refused("vm3")...)
	release := v.stopping(t, c, p.vm1)
	wantRefusal(t, create(), refused("vm3")...)
	release()
	eventually(t, "VM3 to be let in", create)
	running(t, c, vm3)
	awaitStopped(t, c, p.vm1)
	wantTold(t, v.start(t, p.vm1), refused("vm1")...)
}

// Unlike in the proposal, which refuses VM2's migration, the quota is raised by what the
// share lacks. With one half for them two migrations have room, so this is one quarter. A
// third VM has room then; a fourth gets nothing of what the quota is raised by.
func (v *virtctl) testScenario4(t *testing.T, c *kubevirttest.Cluster) {
	p := v.plan(t, c, 25)
	one := c.MigrateUntil(t, instance(t, c, p.vm1), virtv1.MigrationPreparingTarget)
	one.Await(t, virtv1.MigrationPreparingTarget)
	awaitPhase(t, c, p.ns, v1alpha1.PhaseCharged)
	awaitHard(t, c, p.ns, kubevirttest.QuotaName, p.base)
	two := c.MigrateUntil(t, instance(t, c, p.vm2), virtv1.MigrationPreparingTarget)
	two.Await(t, virtv1.MigrationPreparingTarget)
	awaitHard(t, c, p.ns, kubevirttest.QuotaName, times(p.launcher, 5))
	v.started(t, c, proposed(p.ns, "vm3"))
	wantRefusal(t, c.Client.Create(t.Context(), proposed(p.ns, "vm4")), refused("vm4")...)
	for _, m := range []*kubevirttest.Migration{one, two} {
		m.GoOn(t)
		m.Await(t, virtv1.MigrationSucceeded)
	}
	awaitClean(t, c, p.ns, kubevirttest.QuotaName, p.base)
	wantRefusal(t, c.Client.Create(t.Context(), proposed(p.ns, "vm4")), refused("vm4")...)
}

// VM4 is made of a snapshot of VM1. KubeVirt halts what it restores as a new VM, so it is the
// start that is refused, until VM2 is stopped.
func (v *virtctl) testScenario5(t *testing.T, c *kubevirttest.Cluster) {
	p := v.plan(t, c, 50)
	vm4 := restored(t, c, p.vm1, "vm4")
	wantTold(t, v.start(t, vm4), refused("vm4")...)
	wantPass(t, v.stop(t, p.vm2))
	awaitStopped(t, c, p.vm2)
	eventually(t, "VM4 to be let start", func() error { return v.start(t, vm4) })
	running(t, c, vm4)
}

// What virt-controller makes, as Harvester's own does when it restores, no guard of VMs
// judges. The launcher is rejected, and the VM halted, as the proposal has it.
func (v *virtctl) testScenario5Unseen(t *testing.T, c *kubevirttest.Cluster) {
	p := v.plan(t, c, 50)
	vm4 := proposed(p.ns, "vm4")
	wantPass(t, as(t, c, "kubevirt-controller").Create(t.Context(), vm4))
	eventually(t, "VM4 to be halted", func() error { return haltedAndTold(t, c, vm4) })
	for _, vm := range []*virtv1.VirtualMachine{p.vm1, p.vm2} {
		if vmi := instance(t, c, vm); !vmi.IsRunning() {
			t.Errorf("%s is %s", vm.Name, vmi.Status.Phase)
		}
	}
}

// suspend says of a VM that it is suspended, as virt-handler does, which there is none of here
// for virt-api to ask.
func suspend(t *testing.T, c *kubevirttest.Cluster, vm *virtv1.VirtualMachine) {
	t.Helper()
	handler := as(t, c, hackkubevirt.HandlerAccount)
	eventually(t, vm.Name+" to be suspended", func() error {
		vmi := instance(t, c, vm)
		vmi.Status.Conditions = append(vmi.Status.Conditions, virtv1.VirtualMachineInstanceCondition{
			Type: virtv1.VirtualMachineInstancePaused, Status: corev1.ConditionTrue, Reason: "PausedByUser", LastTransitionTime: metav1.Now(),
		})
		return handler.Update(t.Context(), vmi)
	})
	eventually(t, vm.Name+" to be known to be suspended", func() error {
		if err := c.Client.Get(t.Context(), client.ObjectKeyFromObject(vm), vm); err != nil {
			return err
		}
		if got := vm.Status.PrintableStatus; got != virtv1.VirtualMachineStatusPaused {
			return fmt.Errorf("it is %s", got)
		}
		return nil
	})
}

// as is a client with the rights of one of KubeVirt's service accounts.
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

// stopping returns when a VM is being stopped. It stops no further until release is called.
func (v *virtctl) stopping(t *testing.T, c *kubevirttest.Cluster, vm *virtv1.VirtualMachine) (release func()) {
	t.Helper()
	vmi := instance(t, c, vm)
	pods := c.Launchers(t, vmi)
	if len(pods) != 1 {
		t.Fatalf("%s has %d launchers, want 1", vm.Name, len(pods))
	}
	c.Keep(t, &pods[0])
	wantPass(t, v.stop(t, vm))
	eventually(t, vm.Name+" to be stopping", func() error {
		if err := c.Client.Get(t.Context(), client.ObjectKeyFromObject(&pods[0]), &pods[0]); err != nil {
			return err
		}
		if pods[0].DeletionTimestamp == nil {
			return errors.New("its launcher is not being deleted")
		}
		return nil
	})
	return func() { c.Release(t, &pods[0]) }
}

// awaitStopped returns when a VM has no instance.
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

// restored returns a VM that virt-controller makes of a snapshot of another one, which has no
// volume that storage would have to take a snapshot of.
func restored(t *testing.T, c *kubevirttest.Cluster, of *virtv1.VirtualMachine, name string) *virtv1.VirtualMachine {
	t.Helper()
	snapshot := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"source": map[string]any{"apiGroup": "kubevirt.io", "kind": "VirtualMachine", "name": of.Name},
	}}}
	snapshot.SetGroupVersionKind(snapshotv1beta1.SchemeGroupVersion.WithKind("VirtualMachineSnapshot"))
	snapshot.SetNamespace(of.Namespace)
	snapshot.SetName("snapshot")
	eventually(t, "snapshots to be allowed", func() error { return c.Client.Create(t.Context(), snapshot) })
	awaitTrue(t, c, snapshot, "readyToUse")
	r := restore(of.Namespace, snapshot.GetName())
	if err := unstructured.SetNestedField(r.Object, name, "spec", "target", "name"); err != nil {
		t.Fatal(err)
	}
	wantPass(t, c.Client.Create(t.Context(), r))
	awaitTrue(t, c, r, "complete")
	vm := &virtv1.VirtualMachine{}
	if err := c.Client.Get(t.Context(), client.ObjectKey{Namespace: of.Namespace, Name: name}, vm); err != nil {
		t.Fatal(err)
	}
	return vm
}

// awaitTrue returns when the status of an object says that something is so.
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
