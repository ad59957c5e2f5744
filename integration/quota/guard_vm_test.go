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

// newVM returns a VirtualMachine of a small VM.
func newVM(
	namespace, name string, strategy kubevirtv1.VirtualMachineRunStrategy,
) *kubevirtv1.VirtualMachine {
	vmi := kubevirttest.NewVMI(namespace, name, small())
	return &kubevirtv1.VirtualMachine{ObjectMeta: vmi.ObjectMeta,
		Spec: kubevirtv1.VirtualMachineSpec{
			RunStrategy: &strategy, Template: &kubevirtv1.VirtualMachineInstanceTemplateSpec{
				Spec: vmi.Spec},
		}}
}

// awaitVMRunning returns when the VM's instance runs.
func awaitVMRunning(t *testing.T, c *kubevirttest.Cluster, vm *kubevirtv1.VirtualMachine) {
	t.Helper()
	c.AwaitRunning(t, awaitInstance(t, c, vm))
}

// awaitInstance waits for the VM's instance and returns it.
func awaitInstance(
	t *testing.T, c *kubevirttest.Cluster, vm *kubevirtv1.VirtualMachine,
) *kubevirtv1.VirtualMachineInstance {
	t.Helper()
	vmi := &kubevirtv1.VirtualMachineInstance{}
	eventually(t, "the instance of VM "+vm.Name, func() error {
		return c.Client.Get(t.Context(), client.ObjectKeyFromObject(vm), vmi)
	})
	return vmi
}

// startRequest returns virt-api's patch for a start request.
func startRequest() client.Patch {
	return merge(`{"status": {"stateChangeRequests": [{"action": "Start"}]}}`)
}

// testVMsOverQuota refuses to make, start or enlarge VMs over the quota. Stopping and deleting
// pass.
func testVMsOverQuota(t *testing.T, c *kubevirttest.Cluster) {
	ns := c.Namespace(t, nil)
	always, halted, manual := kubevirtv1.RunStrategyAlways, kubevirtv1.RunStrategyHalted,
		kubevirtv1.RunStrategyManual
	first, second := newVM(ns, "first", always), newVM(ns, "second", always)
	wantPass(t, c.Client.Create(t.Context(), first))
	wantPass(t, c.Client.Create(t.Context(), second))
	awaitVMRunning(t, c, first)
	awaitVMRunning(t, c, second)
	c.Quota(t, &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: kubevirttest.QuotaName},
		Spec:       corev1.ResourceQuotaSpec{Hard: list("requests.memory", "1Gi", "pods", "1")},
	})
	awaitPods(t, c, ns, 2)
	why := []string{"virtualmachines.guard.mooring.dev", "ResourceQuota " + kubevirttest.QuotaName,
		"requests.memory: requested", "free 0", "launcher's overhead"}
	wantRefusal(t, c.Client.Create(t.Context(), newVM(ns, "third", always)),
		append(why, "VirtualMachine third")...)
	larger := merge(`{"spec": {"template": {"spec": {"domain": {"memory": {"guest": "2Gi"}}}}}}`)
	wantRefusal(t, c.Client.Patch(t.Context(), first.DeepCopy(), larger), append(why, "grows")...)
	wantPass(t, c.Client.Patch(t.Context(), first.DeepCopy(),
		merge(`{"metadata": {"labels": {"a": "b"}}}`)))

	asleep := newVM(ns, "asleep", manual)
	wantPass(t, c.Client.Create(t.Context(), asleep))
	wantRefusal(t, c.Client.Status().Patch(t.Context(), asleep.DeepCopy(), startRequest()),
		append(why, "VirtualMachine asleep")...)
	wantPass(t, c.Client.Create(t.Context(), newVM(ns, "halted", halted)))
	wantRefusal(t, c.Client.Patch(t.Context(), newVM(ns, "halted", halted),
		merge(`{"spec": {"runStrategy": "Always"}}`)), append(why, "VirtualMachine halted")...)

	wantPass(t, c.Client.Patch(t.Context(), first.DeepCopy(),
		merge(`{"spec": {"runStrategy": "Halted"}}`)))
	wantPass(t, c.Client.Delete(t.Context(), second))
	awaitPods(t, c, ns, 0)
}

// testSpaceForOneVM fits one VM to the byte: the guard admits the first VM and refuses the second.
func testSpaceForOneVM(t *testing.T, c *kubevirttest.Cluster) {
	ns := c.Namespace(t, nil)
	first := newVM(ns, "first", kubevirtv1.RunStrategyManual)
	wantPass(t, c.Client.Create(t.Context(), first))
	probe := c.RunningVMI(t, ns, "probe", small())
	c.Quota(t, &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: kubevirttest.QuotaName},
		Spec: corev1.ResourceQuotaSpec{Hard: list("requests.memory", "64Gi", "requests.cpu",
			"64", "pods", "64")},
	})
	awaitPods(t, c, ns, 1)
	c.SetHard(t, ns, c.Used(t, ns))
	wantRefusal(t, c.Client.Status().Patch(t.Context(), first.DeepCopy(), startRequest()),
		"VirtualMachine first")
	if err := c.Client.Delete(t.Context(), probe); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the first VM to be allowed to start", func() error {
		return c.Client.Status().Patch(t.Context(), first.DeepCopy(), startRequest())
	})
	awaitVMRunning(t, c, first)
	wantRefusal(t, c.Client.Create(t.Context(), newVM(ns, "second", kubevirtv1.RunStrategyAlways)),
		"VirtualMachine second")
}

// TestReservedQuotaIsKept reserves quota for a migration before its target pod exists. The guards
// refuse a VM and a launcher in this space.
func TestReservedQuotaIsKept(t *testing.T) {
	c, _ := startGuarded(t)
	ns := c.Namespace(t, full())
	vmi := c.RunningVMI(t, ns, "vm", small())
	start := stopVirtController(t, c)
	defer start() // for other tests
	m := c.Migrate(t, vmi)
	r := awaitPhase(t, c, ns, v1alpha1.PhaseGranted)
	awaitHard(t, c, ns, kubevirttest.QuotaName, plus(full(), r))

	second := newVM(ns, "second", kubevirtv1.RunStrategyAlways)
	wantRefusal(t, c.Client.Create(t.Context(), second.DeepCopy()),
		"virtualmachines.guard.mooring.dev", "reserved for 1 migration")
	launcher := copyByHand(c.Launchers(t, vmi)[0])
	wantRefusal(t, c.Client.Create(t.Context(), launcher.DeepCopy()), "launchers.guard.mooring.dev",
		"exceeded quota", "reserved for 1 migration")
	// only virt-controller may set this label
	launcher.Labels[kubevirtv1.MigrationJobLabel] = r.Name
	wantRefusal(t, c.Client.Create(t.Context(), launcher.DeepCopy()), "launchers.guard.mooring.dev")
	// without it the pod is no launcher
	delete(launcher.Labels, kubevirtv1.AppLabel)
	delete(launcher.Labels, kubevirtv1.MigrationJobLabel)
	wantRefusal(t, c.Client.Create(t.Context(), launcher.DeepCopy()), "pods.guard.mooring.dev",
		"exceeded quota", "reserved for 1 migration")

	start()
	m.Await(t, kubevirtv1.MigrationSucceeded)
	awaitClean(t, c, ns, kubevirttest.QuotaName, full())
	wantRefusal(t, c.Client.Create(t.Context(), second), "VirtualMachine second")
}

// copyByHand returns a new pod with the labels and resources of another pod.
func copyByHand(pod corev1.Pod) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: "by-hand",
			Labels: pod.Labels},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name: "compute", Image: "registry.test/image",
			Resources: pod.Spec.Containers[0].Resources,
		}}},
	}
}
