package quota

import (
	"errors"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	virtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kubevirttest "github.com/mooring-vm/mooring/integration/kubevirt"
	"github.com/mooring-vm/mooring/quota/controller"
)

// TestHalted starts a VM in the maintenance share without any webhook. The controller halts it and
// writes an Event. In a namespace without a share, KubeVirt retries the VM as usual.
func TestHalted(t *testing.T) {
	c, _ := start(t)
	ns, other := c.Namespace(t, full()), c.Namespace(t, full())
	charged(t, c, ns)
	c.RunningVMI(t, other, "vm", small())
	late, lateThere := newVM(ns, "late", virtv1.RunStrategyAlways),
		newVM(other, "late", virtv1.RunStrategyAlways)
	for _, vm := range []*virtv1.VirtualMachine{late, lateThere} {
		if err := c.Client.Create(t.Context(), vm); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "the VM to be halted", func() error { return checkHaltedWithEvent(t, c, late) })
	eventually(t, "the other VM to be rejected", func() error {
		return checkRejectedByQuota(t, c, lateThere)
	})
	if err := c.Client.Get(t.Context(), client.ObjectKeyFromObject(lateThere), lateThere); err !=
		nil {
		t.Fatal(err)
	}
	if got := *lateThere.Spec.RunStrategy; got != virtv1.RunStrategyAlways {
		t.Errorf("the VM without a maintenance share is %s", got)
	}
}

func checkHaltedWithEvent(t *testing.T, c *kubevirttest.Cluster, vm *virtv1.VirtualMachine) error {
	t.Helper()
	if err := c.Client.Get(t.Context(), client.ObjectKeyFromObject(vm), vm); err != nil {
		t.Fatal(err)
	}
	if *vm.Spec.RunStrategy != virtv1.RunStrategyHalted {
		return fmt.Errorf("state %s", *vm.Spec.RunStrategy)
	}
	events := &eventsv1.EventList{}
	if err := c.Client.List(t.Context(), events, client.InNamespace(vm.Namespace)); err != nil {
		t.Fatal(err)
	}
	for _, e := range events.Items {
		if e.Reason == controller.ReasonHalted && e.Regarding.UID == vm.UID {
			return nil
		}
	}
	return errors.New("no Event reports it")
}

func checkRejectedByQuota(t *testing.T, c *kubevirttest.Cluster, vm *virtv1.VirtualMachine) error {
	t.Helper()
	vmi := &virtv1.VirtualMachineInstance{}
	if err := c.Client.Get(t.Context(), client.ObjectKeyFromObject(vm), vmi); err != nil {
		return err
	}
	for _, condition := range vmi.Status.Conditions {
		if condition.Type == virtv1.VirtualMachineInstanceSynchronized &&
			condition.Status == corev1.ConditionFalse {
			return nil
		}
	}
	return errors.New("it has no such condition")
}
