package kubevirttest

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	virtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func small() Size { return Size{Cores: 2, Memory: "1Gi"} }

// TestVMIGetsALauncher shows that virt-controller made the launcher: it requests more memory than
// the guest.
func TestVMIGetsALauncher(t *testing.T) {
	c := Start(t)
	vmi := c.RunningVMI(t, c.Namespace(t, nil), "vm", small())
	pods := c.Launchers(t, vmi)
	if len(pods) != 1 {
		t.Fatalf("%d launchers, want 1", len(pods))
	}
	if pods[0].Spec.NodeName != vmi.Status.NodeName {
		t.Errorf("launcher on node %q, VMI on %q", pods[0].Spec.NodeName, vmi.Status.NodeName)
	}
	if asked := memoryOf(t, &pods[0]); asked.Cmp(resource.MustParse("1Gi")) <= 0 {
		t.Errorf("launcher requests %s, want more than the guest's 1Gi", asked.String())
	}
}

func memoryOf(t *testing.T, pod *corev1.Pod) resource.Quantity {
	t.Helper()
	for _, container := range pod.Spec.Containers {
		if container.Name == "compute" {
			return container.Resources.Requests[corev1.ResourceMemory]
		}
	}
	t.Fatalf("pod %s has no container \"compute\"", pod.Name)
	return resource.Quantity{}
}

// TestVMIOverQuotaWaits checks that a quota also delays a new VMI. The API server calls
// virt-api's webhooks.
func TestVMIOverQuotaWaits(t *testing.T) {
	c := Start(t)
	ns := c.Namespace(t, memory("1Gi"))
	vmi := c.VMI(t, ns, "vm", small())
	Eventually(t, "the VMI to be refused a pod", func() bool {
		c.get(t, vmi)
		for _, condition := range vmi.Status.Conditions {
			if condition.Type == virtv1.VirtualMachineInstanceSynchronized &&
				condition.Reason == "FailedCreate" {
				return true
			}
		}
		return false
	})
	if pods := c.Launchers(t, vmi); len(pods) > 0 {
		t.Errorf("%d launchers, want none", len(pods))
	}
}

func TestWebhooksOfVirtAPIAreAsked(t *testing.T) {
	c := Start(t)
	vmi := NewVMI(c.Namespace(t, nil), "vm", small())
	vmi.Spec.Architecture = "vax"
	if err := c.Client.Create(t.Context(), vmi); err == nil {
		t.Error("created a VMI of an unknown architecture")
	}
}

// TestVMStartsAndStops uses virt-controller's VM controller.
func TestVMStartsAndStops(t *testing.T) {
	c := Start(t)
	vmi := NewVMI(c.Namespace(t, nil), "vm", small())
	always, halted := virtv1.RunStrategyAlways, virtv1.RunStrategyHalted
	vm := &virtv1.VirtualMachine{
		ObjectMeta: metav1.ObjectMeta{Namespace: vmi.Namespace, Name: vmi.Name},
		Spec: virtv1.VirtualMachineSpec{
			RunStrategy: &always,
			Template:    &virtv1.VirtualMachineInstanceTemplateSpec{Spec: vmi.Spec},
		},
	}
	if err := c.Client.Create(t.Context(), vm); err != nil {
		t.Fatal(err)
	}
	Eventually(t, "the VM's instance to run", func() bool {
		err := c.Client.Get(t.Context(), client.ObjectKeyFromObject(vmi), vmi)
		return err == nil && vmi.IsRunning()
	})
	patch(t, c, vm, func(vm *virtv1.VirtualMachine) { vm.Spec.RunStrategy = &halted })
	Eventually(t, "the VM's instance to be gone", func() bool {
		return apierrors.IsNotFound(c.Client.Get(t.Context(), client.ObjectKeyFromObject(vmi), vmi))
	})
	Eventually(t, "the launchers to be gone", func() bool { return len(c.Launchers(t, vmi)) == 0 })
}
