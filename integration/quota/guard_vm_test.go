package quota

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mooring-vm/mooring/api/v1alpha1"
	kubevirttest "github.com/mooring-vm/mooring/integration/kubevirt"
)

// newVM is a VirtualMachine of a small VM.
func newVM(namespace, name string, strategy kubevirtv1.VirtualMachineRunStrategy) *kubevirtv1.VirtualMachine {
	vmi := kubevirttest.NewVMI(namespace, name, small())
	return &kubevirtv1.VirtualMachine{ObjectMeta: vmi.ObjectMeta, Spec: kubevirtv1.VirtualMachineSpec{
		RunStrategy: &strategy, Template: &kubevirtv1.VirtualMachineInstanceTemplateSpec{Spec: vmi.Spec},
	}}
}

// running returns when a VM's instance runs.
func running(t *testing.T, c *kubevirttest.Cluster, vm *kubevirtv1.VirtualMachine) {
	t.Helper()
	c.AwaitRunning(t, instance(t, c, vm))
}

// instance returns a VM's instance when there is one.
func instance(t *testing.T, c *kubevirttest.Cluster, vm *kubevirtv1.VirtualMachine) *kubevirtv1.VirtualMachineInstance {
	t.Helper()
	vmi := &kubevirtv1.VirtualMachineInstance{}
	eventually(t, "the instance of VM "+vm.Name, func() error { return c.Client.Get(t.Context(), client.ObjectKeyFromObject(vm), vmi) })
	return vmi
}

// toStart asks for a start as virt-api does.
func toStart() client.Patch {
	return merge(`{"status": {"stateChangeRequests": [{"action": "Start"}]}}`)
}

// Over the quota, VMs are not made, started or enlarged. They are stopped and deleted.
func testVMsOverQuota(t *testing.T, c *kubevirttest.Cluster) {
	ns := c.Namespace(t, nil)
	always, halted, manual := kubevirtv1.RunStrategyAlways, kubevirtv1.RunStrategyHalted, kubevirtv1.RunStrategyManual
	first, second := newVM(ns, "first", always), newVM(ns, "second", always)
	wantPass(t, c.Client.Create(t.Context(), first))
	wantPass(t, c.Client.Create(t.Context(), second))
	running(t, c, first)
	running(t, c, second)
	c.Quota(t, &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: kubevirttest.QuotaName},
		Spec:       corev1.ResourceQuotaSpec{Hard: list("requests.memory", "1Gi", "pods", "1")},
	})
	awaitPods(t, c, ns, 2)
	why := []string{"virtualmachines.guard.mooring.dev", "ResourceQuota " + kubevirttest.QuotaName, "requests.memory: requested", "free 0", "launcher's overhead"}
	wantRefusal(t, c.Client.Create(t.Context(), newVM(ns, "third", always)), append(why, "VirtualMachine third")...)
	larger := merge(`{"spec": {"template": {"spec": {"domain": {"memory": {"guest": "2Gi"}}}}}}`)
	wantRefusal(t, c.Client.Patch(t.Context(), first.DeepCopy(), larger), append(why, "grows")...)
	wantPass(t, c.Client.Patch(t.Context(), first.DeepCopy(), merge(`{"metadata": {"labels": {"a": "b"}}}`)))

	asleep := newVM(ns, "asleep", manual)
	wantPass(t, c.Client.Create(t.Context(), asleep))
	wantRefusal(t, c.Client.Status().Patch(t.Context(), asleep.DeepCopy(), toStart()), append(why, "VirtualMachine asleep")...)
	wantPass(t, c.Client.Create(t.Context(), newVM(ns, "halted", halted)))
	wantRefusal(t, c.Client.Patch(t.Context(), newVM(ns, "halted", halted), merge(`{"spec": {"runStrategy": "Always"}}`)), append(why, "VirtualMachine halted")...)

	wantPass(t, c.Client.Patch(t.Context(), first.DeepCopy(), merge(`{"spec": {"runStrategy": "Halted"}}`)))
	wantPass(t, c.Client.Delete(t.Context(), second))
	awaitPods(t, c, ns, 0)
}

// The estimate lets pass what fits to the byte: the second VM is refused, the first is not.
func testRoomForOne(t *testing.T, c *kubevirttest.Cluster) {
	ns := c.Namespace(t, nil)
	first := newVM(ns, "first", kubevirtv1.RunStrategyManual)
	wantPass(t, c.Client.Create(t.Context(), first))
	probe := c.RunningVMI(t, ns, "probe", small())
	c.Quota(t, &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: kubevirttest.QuotaName},
		Spec:       corev1.ResourceQuotaSpec{Hard: list("requests.memory", "64Gi", "requests.cpu", "64", "pods", "64")},
	})
	awaitPods(t, c, ns, 1)
	c.SetHard(t, ns, c.Used(t, ns))
	wantRefusal(t, c.Client.Status().Patch(t.Context(), first.DeepCopy(), toStart()), "VirtualMachine first")
	if err := c.Client.Delete(t.Context(), probe); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the first VM to be let start", func() error { return c.Client.Status().Patch(t.Context(), first.DeepCopy(), toStart()) })
	running(t, c, first)
	wantRefusal(t, c.Client.Create(t.Context(), newVM(ns, "second", kubevirtv1.RunStrategyAlways)), "VirtualMachine second")
}

// TestReservedRoomIsKept: a quota has room in status.hard that is reserved for a migration
// whose target pod is not there yet. Neither a VM nor a launcher takes it.
func TestReservedRoomIsKept(t *testing.T) {
	c, _ := startGuarded(t)
	ns := c.Namespace(t, full())
	vmi := c.RunningVMI(t, ns, "vm", small())
	if err := c.KubeVirt.StopController(t.Context()); err != nil {
		t.Fatal(err)
	}
	started := false
	start := func() {
		if !started {
			started = true
			if err := c.KubeVirt.StartController(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	defer start() // for other tests
	m := c.Migrate(t, vmi)
	r := awaitPhase(t, c, ns, v1alpha1.PhaseGranted)
	awaitHard(t, c, ns, kubevirttest.QuotaName, plus(full(), r))

	second := newVM(ns, "second", kubevirtv1.RunStrategyAlways)
	wantRefusal(t, c.Client.Create(t.Context(), second.DeepCopy()), "virtualmachines.guard.mooring.dev", "reserved for 1 migrations")
	launcher := like(c.Launchers(t, vmi)[0])
	wantRefusal(t, c.Client.Create(t.Context(), launcher.DeepCopy()), "launchers.guard.mooring.dev", "exceeded quota", "reserved for 1 migrations")
	launcher.Labels[kubevirtv1.MigrationJobLabel] = r.Name // which only virt-controller may say
	wantRefusal(t, c.Client.Create(t.Context(), launcher.DeepCopy()), "launchers.guard.mooring.dev")
	delete(launcher.Labels, kubevirtv1.AppLabel) // what is no launcher Kubernetes counts, and nobody else
	delete(launcher.Labels, kubevirtv1.MigrationJobLabel)
	wantPass(t, c.Client.Create(t.Context(), launcher.DeepCopy(), client.DryRunAll))

	start()
	m.Await(t, kubevirtv1.MigrationSucceeded)
	awaitClean(t, c, ns, kubevirttest.QuotaName, full())
	wantRefusal(t, c.Client.Create(t.Context(), second), "VirtualMachine second")
}

// like is a pod that is made by hand after another one.
func like(pod corev1.Pod) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: "by-hand", Labels: pod.Labels},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name: "compute", Image: "registry.test/image", Resources: pod.Spec.Containers[0].Resources,
		}}},
	}
}
