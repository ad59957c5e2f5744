package kubevirtnode

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/fencing"
	"github.com/mooring-vm/mooring/hack/kubevirtnode"
)

// TestFencing deletes a launcher by force while kubelet is stopped and the VM runs. KubeVirt starts
// the VM again only after its end.
func TestFencing(t *testing.T) {
	c := start(t)
	c.requireMooring(t)
	c.fence(t)
	vmi := newVMI("fenced", nil)
	c.runVM(t, vmi)
	pod, qemu := c.launcher(t, vmi), c.qemu(t, vmi)
	deleteWithoutKubelet(t, c, vmi)
	t.Cleanup(func() { startKubelet(t, c) })
	c.awaitFencing(t, pod, fencing.ReasonWaits, fencing.NodeNotReady)
	c.checkOnly(t, vmi, pod)
	if now := c.qemu(t, vmi); now != qemu {
		t.Errorf("the VM was process %s and is process %s", qemu, now)
	}
	startKubelet(t, c)
	c.awaitFencing(t, pod, fencing.ReasonReleased, fencing.VMEnded)
	c.awaitAgain(t, vmi)
	if now := c.qemu(t, vmi); now == qemu {
		t.Errorf("the VM is process %s again", now)
	}
}

// TestFencingOfANode cuts a node off from the API server. Its VM starts on the other node only
// after an administrator has vouched for the first one. When that node is back, its VM ends.
func TestFencingOfANode(t *testing.T) {
	c := startTwoNodes(t)
	c.fence(t)
	for _, test := range []struct {
		name string
		// lose causes more than the cut.
		lose         func(t *testing.T, c *cluster, node *corev1.Node, pod *corev1.Pod)
		waits, proof fencing.Reason
		// vouch is the administrator's word, and repair what follows the reconnection.
		vouch, repair func(t *testing.T, c *cluster, node *corev1.Node)
	}{
		{"cut-off", forceDelete, fencing.NodeNotReady, fencing.NodeOutOfService, taint, untaint},
		{"node-deleted", deleteNode, fencing.NodeDeleted, fencing.NodeFenced, fenceNode, register},
	} {
		t.Run(test.name, func(t *testing.T) {
			vmi, node := newVMI(test.name, nil), &corev1.Node{}
			vmi.Spec.NodeSelector = nil
			uncordon := c.cordon(t, kubevirtnode.NodeName(1))
			c.runVM(t, vmi)
			uncordon()
			node.Name = vmi.Status.NodeName
			lost, pod := c.on(t, node.Name), c.launcher(t, vmi)
			qemu := lost.qemu(t, vmi)

			reconnect := lost.cutOff(t)
			test.lose(t, c, node, pod)
			c.awaitFencing(t, pod, fencing.ReasonWaits, test.waits)
			c.checkOnly(t, vmi, pod)
			if now := lost.qemu(t, vmi); now != qemu {
				t.Errorf("the VM was process %s and is process %s", qemu, now)
			}
			test.vouch(t, c, node)
			c.awaitFencing(t, pod, fencing.ReasonReleased, test.proof)
			c.awaitAgain(t, vmi)
			if vmi.Status.NodeName == node.Name {
				t.Errorf("the VM is on the lost node %s again", node.Name)
			}
			reconnect()
			test.repair(t, c, node)
			lost.awaitNoQEMU(t, vmi)
			c.on(t, vmi.Status.NodeName).qemu(t, vmi)
		})
	}
}

// fence turns fencing on for the suite's namespace until t ends. The controller is on the first
// node then, where the API server reaches it.
func (c *cluster) fence(t *testing.T) {
	t.Helper()
	c.upgrade(t.Context(), t, "--set=fencing.enabled=true",
		`--set=controller.nodeSelector.kubernetes\.io/hostname=`+kubevirtnode.NodeName(1))
	c.labelNamespace(t, `"true"`)
	t.Cleanup(func() {
		c.labelNamespace(t, "null")
		c.upgrade(context.WithoutCancel(t.Context()), t)
	})
}

func (c *cluster) labelNamespace(t *testing.T, fenced string) {
	t.Helper()
	patch := fmt.Appendf(nil, `{"metadata": {"labels": {%q: %s}}}`, api.FencingLabel, fenced)
	if err := c.Patch(context.WithoutCancel(t.Context()),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}},
		client.RawPatch(types.MergePatchType, patch)); err != nil {
		t.Fatal(err)
	}
}

func (c *cluster) awaitFencing(t *testing.T, pod *corev1.Pod, event string, why fencing.Reason) {
	t.Helper()
	c.awaitEventWith(t, pod.Name, fmt.Sprintf("%s: %s: ", event, why))
}

// checkOnly expects the same instance of a VM with one launcher, and its QEMU on no other node.
func (c *cluster) checkOnly(
	t *testing.T, vmi *kubevirtv1.VirtualMachineInstance, pod *corev1.Pod,
) {
	t.Helper()
	instance := vmi.UID
	c.get(t, vmi)
	pods, err := c.launchers(t.Context(), vmi)
	if err != nil {
		t.Fatal(err)
	}
	if vmi.UID != instance || len(pods) != 1 || pods[0].UID != pod.UID {
		t.Errorf("instance %s has the launchers %v, want %s and %s", vmi.UID, pods, instance,
			pod.Name)
	}
	for name := range c.nodes {
		pids, err := c.on(t, name).processes(t.Context(), qemuPattern(vmi))
		if err != nil || name != pod.Spec.NodeName && len(pids) > 0 {
			t.Errorf("node %s has the QEMU processes %v, or: %v", name, pids, err)
		}
	}
}

// awaitAgain waits until a VM runs as another instance, and reads it.
func (c *cluster) awaitAgain(t *testing.T, vmi *kubevirtv1.VirtualMachineInstance) {
	t.Helper()
	old := vmi.UID
	eventually(t, vmi.Name+" to run again", func(ctx context.Context) error {
		if err := c.Get(ctx, client.ObjectKeyFromObject(vmi), vmi); err != nil {
			return err
		}
		if vmi.UID == old || vmi.Status.Phase != kubevirtv1.Running {
			return fmt.Errorf("instance %s is %s, the old one was %s", vmi.UID, vmi.Status.Phase,
				old)
		}
		return nil
	})
}

// cutOff keeps the node's own connections, of kubelet and of its pods, from the API server.
// It drops both directions, because the events of a watch go on without an answer. The result ends
// this, at the latest when t ends.
func (c *cluster) cutOff(t *testing.T) (reconnect func()) {
	t.Helper()
	c.onNode(t, "sh", "-ec", `nft add table inet cut
		for hook in input forward output; do
			nft "add chain inet cut $hook { type filter hook $hook priority 0; }"
		done
		nft 'add rule inet cut output tcp dport 6443 drop'
		nft 'add rule inet cut output oifname cni0 tcp sport 6443 drop'
		nft 'add rule inet cut input iifname cni0 tcp dport 6443 drop'
		nft 'add rule inet cut input tcp sport 6443 drop'
		nft 'add rule inet cut forward iifname cni0 tcp dport 6443 drop'
		nft 'add rule inet cut forward oifname cni0 tcp sport 6443 drop'`)
	reconnect = func() {
		ctx := context.WithoutCancel(t.Context())
		if _, err := c.node.Output(ctx, "nft", "destroy", "table", "inet", "cut"); err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(reconnect)
	return reconnect
}

func forceDelete(t *testing.T, c *cluster, _ *corev1.Node, pod *corev1.Pod) {
	if err := c.Delete(t.Context(), pod, client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
}

// deleteNode deletes the Node object. Kubernetes then deletes its pods.
func deleteNode(t *testing.T, c *cluster, node *corev1.Node, _ *corev1.Pod) {
	if err := c.Delete(t.Context(), node); err != nil {
		t.Fatal(err)
	}
}

func taint(t *testing.T, c *cluster, node *corev1.Node) {
	c.patchNode(t, node.Name, fmt.Sprintf(`{"spec": {"taints": [{"key": %q,
		"value": "nodeshutdown", "effect": "NoExecute"}]}}`, corev1.TaintNodeOutOfService))
}

func untaint(t *testing.T, c *cluster, node *corev1.Node) {
	c.patchNode(t, node.Name, `{"spec": {"taints": null}}`)
}

// fenceNode runs `mooring fence NODE`. It refuses while the last report of the agent is new.
func fenceNode(t *testing.T, _ *cluster, node *corev1.Node) {
	eventually(t, "mooring fence "+node.Name, func(ctx context.Context) error {
		_, err := mooring(ctx, "fence", node.Name)
		return err
	})
}

// register restarts kubelet, which registers its node only at its start, and returns when the node
// is ready.
func register(t *testing.T, c *cluster, node *corev1.Node) {
	c.on(t, node.Name).onNode(t, "systemctl", "restart", "kubelet")
	eventually(t, node.Name+" to be ready", func(ctx context.Context) error {
		if err := c.Get(ctx, client.ObjectKey{Name: node.Name}, node); err != nil {
			return err
		}
		for _, condition := range node.Status.Conditions {
			if condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionTrue {
				return nil
			}
		}
		return fmt.Errorf("conditions are %v", node.Status.Conditions)
	})
}
