package quota

import (
	"fmt"
	"testing"

	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	virtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kubevirttest "github.com/mooring-vm/mooring/integration/kubevirt"
)

// A drain evicts all launchers at once: KubeVirt migrates their VMs, through a full quota. A
// VM that is halted takes no part, and is reserved nothing for.
func testDrain(t *testing.T, c *kubevirttest.Cluster) {
	base := list("requests.memory", "4200Mi", "pods", "3")
	ns := c.Namespace(t, base)
	var vmis []*virtv1.VirtualMachineInstance
	nodes := map[string]string{}
	for _, name := range []string{"one", "two", "three"} {
		vmi := c.RunningVMI(t, ns, name, small())
		vmis, nodes[name] = append(vmis, vmi), vmi.Status.NodeName
	}
	halted := startingVM(ns, "halted")
	halted.Spec.RunStrategy = new(virtv1.RunStrategyHalted)
	if err := c.Client.Create(t.Context(), halted); err != nil {
		t.Fatal(err)
	}
	for _, vmi := range vmis {
		err := c.Client.SubResource("eviction").Create(t.Context(), &c.Launchers(t, vmi)[0], &policyv1.Eviction{})
		if !apierrors.IsTooManyRequests(err) {
			t.Fatalf("got %v, want to be told to try again", err)
		}
	}
	for _, vmi := range vmis {
		eventually(t, vmi.Name+" to be elsewhere", func() error {
			if err := c.Client.Get(t.Context(), client.ObjectKeyFromObject(vmi), vmi); err != nil {
				return err
			}
			if vmi.Status.Phase != virtv1.Running || vmi.Status.NodeName == nodes[vmi.Name] {
				return fmt.Errorf("it is %s on %s", vmi.Status.Phase, vmi.Status.NodeName)
			}
			return nil
		})
	}
	awaitClean(t, c, ns, kubevirttest.QuotaName, base)
}
