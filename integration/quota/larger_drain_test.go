package quota

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"

	kubevirttest "github.com/mooring-vm/mooring/integration/kubevirt"
	"github.com/mooring-vm/mooring/integration/kubevirt/actor"
)

// fullNamespace is a namespace with VMs on one node and a quota without room.
type fullNamespace struct {
	name string
	vmis []*kubevirtv1.VirtualMachineInstance
	base corev1.ResourceList
}

// TestDrainsWithLargerTargets drains 1, 3 and 20 VMs of full namespaces, after a change of
// KubeVirt's settings that makes each target larger than its source. After the first migration the
// VMs of a namespace use more than the base. Each quota has room for the migrations under way, and
// never for all pending ones.
func TestDrainsWithLargerTargets(t *testing.T) {
	c, _ := startGuarded(t)
	node, other := actor.NodeNames()[0], actor.NodeNames()[1]
	var all []*fullNamespace
	whileCordoned(t, c, other, func() {
		for _, n := range []int{1, 3, 20} {
			all = append(all, fillNamespace(t, c, n))
		}
	})
	source := c.Launchers(t, all[0].vmis[0])[0]
	c.Configure(t, `{"spec": {"configuration": {"additionalGuestMemoryOverheadRatio": "3"}}}`)
	awaitLarger(t, c, &source)

	largest := all[len(all)-1]
	seen := record(t, c, largest.name)
	whileCordoned(t, c, node, func() {
		for _, ns := range all {
			for _, vmi := range ns.vmis {
				evict(t, c, node, vmi)
			}
		}
		for _, ns := range all {
			for _, vmi := range ns.vmis {
				awaitElsewhere(t, c, vmi, node)
			}
		}
	})
	for _, ns := range all {
		awaitHard(t, c, ns.name, kubevirttest.QuotaName, ns.base)
	}
	wantFewAtOnce(t, seen(), largest)
}

// fillNamespace runs VMs in a new namespace, and lowers its quota to their use.
func fillNamespace(t *testing.T, c *kubevirttest.Cluster, vms int) *fullNamespace {
	t.Helper()
	ns := &fullNamespace{name: c.Namespace(t, list("requests.memory", "64Gi", "pods", "64"))}
	for i := range vms {
		ns.vmis = append(ns.vmis, c.VMI(t, ns.name, fmt.Sprint("vm-", i), small()))
	}
	for _, vmi := range ns.vmis {
		c.AwaitRunning(t, vmi)
	}
	ns.base = c.Used(t, ns.name)
	c.SetHard(t, ns.name, ns.base)
	return ns
}

// wantFewAtOnce expects the quota to have had room for some targets beside all sources, and at no
// time for half of them. KubeVirt migrates two VMs of a node at once by default. A reservation ends
// with its source pod.
func wantFewAtOnce(t *testing.T, h history, ns *fullNamespace) {
	t.Helper()
	most, base := int64(0), ns.base[corev1.ResourcePods]
	for _, v := range h.quotas {
		pods := v.hard[corev1.ResourcePods]
		most = max(most, pods.Value()-base.Value())
	}
	t.Logf("the quota had room for %d targets at most", most)
	if most == 0 || most > int64(len(ns.vmis)/2) {
		t.Errorf("the quota had room for %d targets, want 1 to %d", most, len(ns.vmis)/2)
	}
}
