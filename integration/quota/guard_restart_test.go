package quota

import (
	"errors"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kubevirtv1 "kubevirt.io/api/core/v1"

	kubevirttest "github.com/mooring-vm/mooring/integration/kubevirt"
)

// TestVirtctl starts, stops and restarts VMs through virt-api. virt-api changes the VM's spec or
// status, and returns the guard's answer.
func TestVirtctl(t *testing.T) {
	c, _ := startGuarded(t)
	v := newVirtctl(t, c)
	inParallel(t, c, map[string]func(*testing.T, *kubevirttest.Cluster){
		"full":           v.testFull,
		"over the quota": v.testOverQuota,
		"grown":          v.testGrown,
	})
}

// checkGuardRefusal returns nil if virt-api's error contains a guard's refusal with these parts.
func checkGuardRefusal(err error, parts ...string) error {
	if err == nil {
		return errors.New("it passed")
	}
	if !apierrors.IsInternalError(err) { // virt-api wraps the refusal
		return fmt.Errorf("want a refusal: %w", err)
	}
	return checkParts(err, append(parts, "virtualmachines.guard.mooring.dev",
		"ResourceQuota "+kubevirttest.QuotaName)...)
}

func wantGuardRefusal(t *testing.T, err error, parts ...string) {
	t.Helper()
	if wrong := checkGuardRefusal(err, parts...); wrong != nil {
		t.Error(wrong)
	}
}

// startAll makes VMs and returns when they run.
func (v *virtctl) startAll(
	t *testing.T, c *kubevirttest.Cluster, vms ...*kubevirtv1.VirtualMachine,
) {
	t.Helper()
	for _, vm := range vms {
		wantPass(t, c.Client.Create(t.Context(), vm))
		if *vm.Spec.RunStrategy == kubevirtv1.RunStrategyManual {
			wantPass(t, v.start(t, vm))
		}
		awaitVMRunning(t, c, vm)
	}
}

// limit creates a quota for memory and pods, and returns when the given number of pods is charged.
func limit(t *testing.T, c *kubevirttest.Cluster, ns, memory, pods string, charged int64) {
	t.Helper()
	c.Quota(t, &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: kubevirttest.QuotaName},
		Spec:       corev1.ResourceQuotaSpec{Hard: list("requests.memory", memory, "pods", pods)},
	})
	awaitPods(t, c, ns, charged)
}

// awaitRestarted returns when the VM runs in a new instance.
func awaitRestarted(
	t *testing.T, c *kubevirttest.Cluster, vm *kubevirtv1.VirtualMachine, was types.UID,
) {
	t.Helper()
	eventually(t, vm.Name+" to run anew", func() error {
		vmi := awaitInstance(t, c, vm)
		if vmi.UID == was || !vmi.IsRunning() {
			return fmt.Errorf("instance %s is %s", vmi.UID, vmi.Status.Phase)
		}
		return nil
	})
}

// testFull restarts VMs unchanged in a namespace full to the byte. A halted VM cannot start there.
func (v *virtctl) testFull(t *testing.T, c *kubevirttest.Cluster) {
	ns := v.namespace(t, c)
	always, manual := newVM(ns, "always", kubevirtv1.RunStrategyAlways),
		newVM(ns, "manual", kubevirtv1.RunStrategyManual)
	v.startAll(t, c, always, manual)
	limit(t, c, ns, "64Gi", "2", 2)
	c.SetHard(t, ns, c.Used(t, ns))
	for _, vm := range []*kubevirtv1.VirtualMachine{always, manual} {
		was := awaitInstance(t, c, vm).UID
		wantPass(t, v.restart(t, vm))
		awaitRestarted(t, c, vm, was)
	}
	halted, asleep := newVM(ns, "halted", kubevirtv1.RunStrategyHalted),
		newVM(ns, "asleep", kubevirtv1.RunStrategyManual)
	for _, vm := range []*kubevirtv1.VirtualMachine{halted, asleep} {
		wantPass(t, c.Client.Create(t.Context(), vm))
		wantGuardRefusal(t, v.start(t, vm), "VirtualMachine "+vm.Name, "requests.memory: requested")
	}
	wantPass(t, v.stop(t, manual))
	eventually(t, "the other VM to be allowed to start", func() error { return v.start(t, asleep) })
	awaitVMRunning(t, c, asleep)
}

// testOverQuota refuses to restart a VM over the quota, because it could not start again. The VM
// runs on. Stopping it is allowed.
func (v *virtctl) testOverQuota(t *testing.T, c *kubevirttest.Cluster) {
	ns := v.namespace(t, c)
	first, second := newVM(ns, "first", kubevirtv1.RunStrategyAlways),
		newVM(ns, "second", kubevirtv1.RunStrategyManual)
	v.startAll(t, c, first, second)
	limit(t, c, ns, "2Gi", "1", 2)
	was := awaitInstance(t, c, first).UID
	wantGuardRefusal(t, v.restart(t, first), "VirtualMachine "+first.Name+" could not start again",
		"requests.memory: requested")
	if is := awaitInstance(t, c, first); is.UID != was || !is.IsRunning() {
		t.Errorf("%s does not run on: instance %s is %s, and was %s", first.Name, is.UID,
			is.Status.Phase, was)
	}
	wantPass(t, v.stop(t, second))
	eventually(t, "usage to fall within the quota", func() error { return v.restart(t, first) })
	awaitRestarted(t, c, first, was)
}

// testGrown enlarges a VM while the quota has space. When the space is gone, the guard refuses a
// restart and the VM runs on.
func (v *virtctl) testGrown(t *testing.T, c *kubevirttest.Cluster) {
	ns := v.namespace(t, c)
	always, manual := newVM(ns, "always", kubevirtv1.RunStrategyAlways),
		newVM(ns, "manual", kubevirtv1.RunStrategyManual)
	v.startAll(t, c, always, manual)
	limit(t, c, ns, "64Gi", "64", 2)
	for _, vm := range []*kubevirtv1.VirtualMachine{always, manual} {
		wantPass(t, c.Client.Patch(t.Context(), vm,
			merge(`{"spec": {"template": {"spec": {"domain": {"memory": {"guest": "2Gi"}}}}}}`)))
	}
	c.SetHard(t, ns, c.Used(t, ns))
	for _, vm := range []*kubevirtv1.VirtualMachine{always, manual} {
		was := awaitInstance(t, c, vm).UID
		wantGuardRefusal(t, v.restart(t, vm), "VirtualMachine "+vm.Name,
			"it grows by more than is free", "requests.memory: requested", "free 0")
		if is := awaitInstance(t, c, vm); is.UID != was || !is.IsRunning() {
			t.Errorf("%s does not run on: instance %s is %s, and was %s", vm.Name, is.UID,
				is.Status.Phase, was)
		}
	}
	c.SetHard(t, ns, list("requests.memory", "64Gi"))
	for _, vm := range []*kubevirtv1.VirtualMachine{always, manual} {
		was := awaitInstance(t, c, vm).UID
		wantPass(t, v.restart(t, vm))
		awaitRestarted(t, c, vm, was)
	}
}
