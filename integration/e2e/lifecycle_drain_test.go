package e2e

import (
	"context"
	"errors"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestDrain drains the node of a VM. The VM ends by SIGTERM, before its pod. The agent stays. After
// the uncordon, a waiting launcher runs.
func TestDrain(t *testing.T) {
	c := start(t)
	c.create(t, launcher("drained", nil, "--vm"))
	c.awaitRunning(t, "drained")
	c.awaitEvent(t, "drained", "VMStarted")
	node := c.nodeOf(t, "drained")
	agents := c.agentsByNode(t)
	c.drain(t, node.Name)
	c.awaitEvent(t, "drained", "VMGone")
	if err := c.awaitGone(t.Context(), namespace, "drained"); err != nil {
		t.Fatal(err)
	}
	if was, is := agents[node.Name].UID, c.agentsByNode(t)[node.Name].UID; was != is {
		t.Errorf("the drain has replaced the agent %s by %s", was, is)
	}

	next := launcher("next", nil)
	next.Spec.NodeSelector = map[string]string{
		corev1.LabelHostname: node.Labels[corev1.LabelHostname]}
	c.create(t, next)
	c.awaitUnschedulable(t, "next")
	c.cordon(t, node.Name, false)
	c.awaitRunning(t, "next")
	if err := c.awaitMooring(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// drain does the same as `kubectl drain --ignore-daemonsets --force --delete-emptydir-data`: it
// cordons the node, and evicts all pods except static pods and pods of DaemonSets. The node is
// schedulable again when t ends.
func (c *cluster) drain(t *testing.T, node string) {
	t.Helper()
	c.cordon(t, node, true)
	t.Cleanup(func() { c.cordon(t, node, false) })
	pods, err := c.client.CoreV1().Pods(metav1.NamespaceAll).List(t.Context(), metav1.ListOptions{
		FieldSelector: "spec.nodeName=" + node})
	if err != nil {
		t.Fatal(err)
	}
	for i := range pods.Items {
		if pod := &pods.Items[i]; isEvictable(pod) {
			c.evict(t, pod)
		}
	}
}

// cordon makes a node unschedulable, or schedulable.
func (c *cluster) cordon(t *testing.T, node string, on bool) {
	t.Helper()
	patch := fmt.Sprintf(`{"spec": {"unschedulable": %t}}`, on)
	_, err := c.client.CoreV1().Nodes().Patch(context.WithoutCancel(t.Context()), node,
		types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{})
	if err != nil {
		t.Error(err)
	}
}

func isEvictable(pod *corev1.Pod) bool {
	owner := metav1.GetControllerOf(pod)
	return pod.Annotations[corev1.MirrorPodAnnotationKey] == "" &&
		(owner == nil || owner.Kind != "DaemonSet")
}

// evict evicts a pod and returns when it is gone. It repeats an eviction that a budget refuses.
func (c *cluster) evict(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	name := pod.Namespace + "/" + pod.Name
	eventually(t, "the eviction of pod "+name, func(ctx context.Context) error {
		err := c.client.PolicyV1().Evictions(pod.Namespace).Evict(ctx, &policyv1.Eviction{
			ObjectMeta: metav1.ObjectMeta{Name: pod.Name, Namespace: pod.Namespace}})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return err
	})
	eventually(t, "pod "+name+" to be gone", func(ctx context.Context) error {
		now, err := c.client.CoreV1().Pods(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err), err == nil && now.UID != pod.UID:
			return nil
		case err != nil:
			return err
		}
		return errors.New("it is there")
	})
}

func (c *cluster) nodeOf(t *testing.T, pod string) *corev1.Node {
	t.Helper()
	p, err := c.client.CoreV1().Pods(namespace).Get(t.Context(), pod, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	node, err := c.client.CoreV1().Nodes().Get(t.Context(), p.Spec.NodeName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return node
}

// agentsByNode are the agents' pods by the names of their nodes.
func (c *cluster) agentsByNode(t *testing.T) map[string]corev1.Pod {
	t.Helper()
	agents, err := c.agents(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]corev1.Pod{}
	for _, a := range agents {
		all[a.Spec.NodeName] = a
	}
	return all
}

func (c *cluster) awaitUnschedulable(t *testing.T, name string) {
	t.Helper()
	eventually(t, "pod "+name+" to wait for a node", func(ctx context.Context) error {
		pod, err := c.client.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, condition := range pod.Status.Conditions {
			if condition.Type == corev1.PodScheduled &&
				condition.Reason == corev1.PodReasonUnschedulable {
				return nil
			}
		}
		return fmt.Errorf("conditions %v", pod.Status.Conditions)
	})
}
