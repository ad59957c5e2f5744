package quota

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"

	kubevirttest "github.com/mooring-vm/mooring/integration/kubevirt"
)

// TestGrowthIsClaimed asks ten times for 5Gi more for each of two VMs. The quota has room for one
// edit. A restart of the controller between two edits makes no difference, and neither does the
// hot-plug by virt-controller. The migration with the new size stays within the base.
func TestGrowthIsClaimed(t *testing.T) {
	c, p := startGuarded(t)
	c.Configure(t, `{"spec": {"configuration": {"vmRolloutStrategy": "LiveUpdate"}}}`)
	ns := c.Namespace(t, nil)
	a, b := growingVM(ns, "a"), growingVM(ns, "b")
	for _, vm := range []*kubevirtv1.VirtualMachine{a, b} {
		wantPass(t, c.Client.Create(t.Context(), vm))
		awaitVMRunning(t, c, vm)
	}
	c.Quota(t, &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: kubevirttest.QuotaName},
		Spec:       corev1.ResourceQuotaSpec{Hard: list("requests.memory", "64Gi", "pods", "2")},
	})
	awaitPods(t, c, ns, 2)
	base := c.Used(t, ns)
	memory := base["requests.memory"]
	memory.Add(resource.MustParse("5632Mi")) // 5Gi, and overhead
	base["requests.memory"] = memory
	c.SetHard(t, ns, base)

	wantPass(t, growBy(t, c, a, 5))
	p.stop(t)
	p.start(t)
	awaitGuards(t, c)
	for gib := 10; gib <= 50; gib += 5 {
		wantRefusal(t, growBy(t, c, a, gib), "VirtualMachine a", "it grows by more than is free")
	}
	for gib := 5; gib <= 50; gib += 5 {
		wantRefusal(t, growBy(t, c, b, gib), "VirtualMachine b", "it grows by more than is free",
			"claimed by 1 pod that starts or grows")
	}

	eventually(t, "the instance to grow", func() error {
		if is := awaitInstance(t, c, a).Spec.Domain.Memory.Guest; is.Value() != guestWith(5).Value() {
			return fmt.Errorf("it has %s", is)
		}
		return nil
	})
	wantRefusal(t, growBy(t, c, b, 5), "claimed by 1 pod that starts or grows")
	migrateAndWait(t, c, a)
	awaitClean(t, c, ns, kubevirttest.QuotaName, base)
	awaitPods(t, c, ns, 2)
	used := c.Used(t, ns)["requests.memory"]
	if used.Cmp(memory) > 0 {
		t.Errorf("%s are in use, and the base is %s", &used, &memory)
	}
	wantRefusal(t, growBy(t, c, b, 5), "VirtualMachine b", "it grows by more than is free")
}

// growingVM is a small VM that can be hot-plugged.
func growingVM(ns, name string) *kubevirtv1.VirtualMachine {
	vm := newVM(ns, name, kubevirtv1.RunStrategyAlways)
	memory := vm.Spec.Template.Spec.Domain.Memory
	memory.Guest, memory.MaxGuest = guestWith(0), new(resource.MustParse("64Gi"))
	return vm
}

// guestWith returns the memory of a VM that has grown by some GiB.
func guestWith(gib int) *resource.Quantity {
	return resource.NewQuantity(int64(gib+1)<<30, resource.BinarySI)
}

// growBy sets the memory in the template of a VM.
func growBy(
	t *testing.T, c *kubevirttest.Cluster, vm *kubevirtv1.VirtualMachine, gib int,
) error {
	t.Helper()
	return c.Client.Patch(t.Context(), vm.DeepCopy(), merge(fmt.Sprintf(
		`{"spec": {"template": {"spec": {"domain": {"memory": {"guest": %q}}}}}}`, guestWith(gib))))
}
