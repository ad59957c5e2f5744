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

// TestVirtctl has a user start, stop and restart VMs by virt-api, which asks for that in the
// VM's spec or in its status, and answers with what the guard says.
func TestVirtctl(t *testing.T) {
	c, _ := startGuarded(t)
	v := newVirtctl(t, c)
	inParallel(t, c, map[string]func(*testing.T, *kubevirttest.Cluster){
		"full":           v.testFull,
		"over the quota": v.testOverQuota,
		"grown":          v.testGrown,
	})
}

// told says what is wrong with virt-api's answer, which should have a guard's refusal.
func told(err error, parts ...string) error {
	if err == nil {
		return errors.New("it passed")
	}
	if !apierrors.IsInternalError(err) { // as which virt-api hands it on
		return fmt.Errorf("want a refusal: %w", err)
	}
	return says(err, append(parts, "virtualmachines.guard.mooring.dev", "ResourceQuota "+kubevirttest.QuotaName)...)
}

func wantTold(t *testing.T, err error, parts ...string) {
	t.Helper()
	if wrong := told(err, parts...); wrong != nil {
		t.Error(wrong)
	}
}

// started makes VMs, and returns when they run.
func (v *virtctl) started(t *testing.T, c *kubevirttest.Cluster, vms ...*kubevirtv1.VirtualMachine) {
	t.Helper()
	for _, vm := range vms {
		wantPass(t, c.Client.Create(t.Context(), vm))
		if *vm.Spec.RunStrategy == kubevirtv1.RunStrategyManual {
			wantPass(t, v.start(t, vm))
		}
		running(t, c, vm)
	}
}

// limit limits a namespace to so many bytes and pods, and returns when these pods are charged.
func limit(t *testing.T, c *kubevirttest.Cluster, ns, memory, pods string, charged int64) {
	t.Helper()
	c.Quota(t, &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: kubevirttest.QuotaName},
		Spec:       corev1.ResourceQuotaSpec{Hard: list("requests.memory", memory, "pods", pods)},
	})
	awaitPods(t, c, ns, charged)
}

// awaitRestarted returns when a VM runs in another instance than this.
func awaitRestarted(t *testing.T, c *kubevirttest.Cluster, vm *kubevirtv1.VirtualMachine, was types.UID) {
	t.Helper()
	eventually(t, vm.Name+" to run anew", func() error {
		vmi := instance(t, c, vm)
		if vmi.UID == was || !vmi.IsRunning() {
			return fmt.Errorf("instance %s is %s", vmi.UID, vmi.Status.Phase)
		}
		return nil
	})
}

// In a namespace that is full to the byte, VMs restart as they are, and none is started.
func (v *virtctl) testFull(t *testing.T, c *kubevirttest.Cluster) {
	ns := v.namespace(t, c)
	always, manual := newVM(ns, "always", kubevirtv1.RunStrategyAlways), newVM(ns, "manual", kubevirtv1.RunStrategyManual)
	v.started(t, c, always, manual)
	limit(t, c, ns, "64Gi", "2", 2)
	c.SetHard(t, ns, c.Used(t, ns))
	for _, vm := range []*kubevirtv1.VirtualMachine{always, manual} {
		was := instance(t, c, vm).UID
		wantPass(t, v.restart(t, vm))
		awaitRestarted(t, c, vm, was)
	}
	halted, asleep := newVM(ns, "halted", kubevirtv1.RunStrategyHalted), newVM(ns, "asleep", kubevirtv1.RunStrategyManual)
	for _, vm := range []*kubevirtv1.VirtualMachine{halted, asleep} {
		wantPass(t, c.Client.Create(t.Context(), vm))
		wantTold(t, v.start(t, vm), "VirtualMachine "+vm.Name, "requests.memory: requested")
	}
	wantPass(t, v.stop(t, manual))
	eventually(t, "the other VM to be let start", func() error { return v.start(t, asleep) })
	running(t, c, asleep)
}

// Over the quota, a VM is not restarted, as it would not start again. It runs on. To stop it
// is not refused.
func (v *virtctl) testOverQuota(t *testing.T, c *kubevirttest.Cluster) {
	ns := v.namespace(t, c)
	first, second := newVM(ns, "first", kubevirtv1.RunStrategyAlways), newVM(ns, "second", kubevirtv1.RunStrategyManual)
	v.started(t, c, first, second)
	limit(t, c, ns, "2Gi", "1", 2)
	was := instance(t, c, first).UID
	wantTold(t, v.restart(t, first), "VirtualMachine "+first.Name+" could not start again", "requests.memory: requested")
	if is := instance(t, c, first); is.UID != was || !is.IsRunning() {
		t.Errorf("%s does not run on: instance %s is %s, and was %s", first.Name, is.UID, is.Status.Phase, was)
	}
	wantPass(t, v.stop(t, second))
	eventually(t, "what is used to be within the quota", func() error { return v.restart(t, first) })
	awaitRestarted(t, c, first, was)
}

// A VM that was changed while there was room is not restarted when there is none any more.
// It runs on as it is.
func (v *virtctl) testGrown(t *testing.T, c *kubevirttest.Cluster) {
	ns := v.namespace(t, c)
	always, manual := newVM(ns, "always", kubevirtv1.RunStrategyAlways), newVM(ns, "manual", kubevirtv1.RunStrategyManual)
	v.started(t, c, always, manual)
	limit(t, c, ns, "64Gi", "64", 2)
	for _, vm := range []*kubevirtv1.VirtualMachine{always, manual} {
		wantPass(t, c.Client.Patch(t.Context(), vm, merge(`{"spec": {"template": {"spec": {"domain": {"memory": {"guest": "2Gi"}}}}}}`)))
	}
	c.SetHard(t, ns, c.Used(t, ns))
	for _, vm := range []*kubevirtv1.VirtualMachine{always, manual} {
		was := instance(t, c, vm).UID
		wantTold(t, v.restart(t, vm), "VirtualMachine "+vm.Name, "it grows by more than is free", "requests.memory: requested", "free 0")
		if is := instance(t, c, vm); is.UID != was || !is.IsRunning() {
			t.Errorf("%s does not run on: instance %s is %s, and was %s", vm.Name, is.UID, is.Status.Phase, was)
		}
	}
	c.SetHard(t, ns, list("requests.memory", "64Gi"))
	for _, vm := range []*kubevirtv1.VirtualMachine{always, manual} {
		was := instance(t, c, vm).UID
		wantPass(t, v.restart(t, vm))
		awaitRestarted(t, c, vm, was)
	}
}
