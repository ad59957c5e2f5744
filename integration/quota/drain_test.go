package quota

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
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
	if err := c.Client.Create(t.Context(), newVM(ns, "halted", virtv1.RunStrategyHalted)); err != nil {
		t.Fatal(err)
	}
	for _, vmi := range vmis {
		evict(t, c, nodes[vmi.Name], vmi)
	}
	for _, vmi := range vmis {
		awaitElsewhere(t, c, vmi, nodes[vmi.Name])
	}
	awaitClean(t, c, ns, kubevirttest.QuotaName, base)
}

// evict evicts the launcher of a VM that runs on a node, which KubeVirt answers with a
// migration.
func evict(t *testing.T, c *kubevirttest.Cluster, node string, vmi *virtv1.VirtualMachineInstance) {
	t.Helper()
	for _, pod := range c.Launchers(t, vmi) {
		if pod.Spec.NodeName != node || pod.Status.Phase != corev1.PodRunning {
			continue
		}
		err := c.Client.SubResource("eviction").Create(t.Context(), &pod, &policyv1.Eviction{})
		if !apierrors.IsTooManyRequests(err) {
			t.Fatalf("%s: got %v, want to be told to try again", pod.Name, err)
		}
		return
	}
	t.Fatalf("%s does not run on %s", vmi.Name, node)
}

// awaitElsewhere returns when a VM runs, and not on this node.
func awaitElsewhere(t *testing.T, c *kubevirttest.Cluster, vmi *virtv1.VirtualMachineInstance, node string) {
	t.Helper()
	eventually(t, vmi.Name+" to be elsewhere", func() error {
		if err := c.Client.Get(t.Context(), client.ObjectKeyFromObject(vmi), vmi); err != nil {
			return err
		}
		if vmi.Status.Phase != virtv1.Running || vmi.Status.NodeName == node {
			return fmt.Errorf("it is %s on %s", vmi.Status.Phase, vmi.Status.NodeName)
		}
		return nil
	})
}
