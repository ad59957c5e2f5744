package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/version"
)

// lock is the lock of a launcher with a device: 4Gi of guest memory, 1Gi that libvirt adds for the
// device, 1Gi by annotation.
const lock = 6 << 30

// emulator is the program that stands for a VM.
const emulator = "/usr/bin/qemu-system-x86_64"

func withDevice() map[string]string {
	return map[string]string{"devices.memlock.mooring.dev": "vfio=1"}
}

// TestMemoryLock reads the limit in the container, of the launcher and of a process beside it.
func TestMemoryLock(t *testing.T) {
	c := start(t)
	c.create(t, launcher("lock", withDevice()))
	plain := launcher("plain", nil)
	plain.Annotations = nil
	c.create(t, plain)
	c.awaitRunning(t, "lock")
	c.awaitRunning(t, "plain")
	want := fmt.Sprintf("memlock %d %d", lock, lock)
	for _, args := range [][]string{{"limits", "1"}, {"limits"}} {
		if got := c.run(t, "lock", args...); got != want {
			t.Errorf("%v: got %q, want %q", args, got, want)
		}
	}
	if got := c.run(t, "plain", "limits", "1"); got == want {
		t.Errorf("a pod without annotations has the lock too: %s", got)
	}
}

// TestRefusal asks for more than the policy allows. Kubelet's Event says so, and no container runs.
func TestRefusal(t *testing.T) {
	c := start(t)
	c.create(t, launcher("refused", map[string]string{"guest-memory.memlock.mooring.dev": "40Gi"}))
	c.awaitEvent(t, "refused", "Failed", "memlock", "8Gi")
	pod, err := c.client.CoreV1().Pods(namespace).Get(t.Context(), "refused", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range pod.Status.ContainerStatuses {
		if s.State.Running != nil || s.LastTerminationState.Terminated != nil {
			t.Errorf("the container ran: %+v", s)
		}
	}
}

// TestWithoutAgent starts a pod that requires the agent while no node has one.
func TestWithoutAgent(t *testing.T) {
	c := start(t)
	if node := c.withoutValidator(t); node != "" {
		t.Skip("needs containerd 2.2 with its validator for required plugins: " + node)
	}
	c.moveAgents(t, `{"mooring-e2e": "nowhere"}`)
	ctx := context.WithoutCancel(t.Context())
	restored := false
	restore := func() {
		if !restored {
			c.moveAgents(t, `{"mooring-e2e": null}`)
			restored = true
		}
	}
	t.Cleanup(func() {
		restore()
		if err := c.awaitMooring(ctx); err != nil {
			t.Error(err)
		}
	})
	eventually(t, "the agents to be gone", func(ctx context.Context) error {
		pods, err := c.agents(ctx)
		if err == nil && len(pods) > 0 {
			err = fmt.Errorf("%d agents", len(pods))
		}
		return err
	})
	c.create(t, launcher("waits", withDevice()))
	c.awaitEvent(t, "waits", "Failed", "required plugin", "mooring")
	restore()
	c.awaitRunning(t, "waits")
	want := fmt.Sprintf("memlock %d %d", lock, lock)
	if got := c.run(t, "waits", "limits", "1"); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// withoutValidator names a node whose container runtime has no validator for required plugins. It
// is empty if each node has one.
func (c *cluster) withoutValidator(t *testing.T) string {
	t.Helper()
	nodes, err := c.client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range nodes.Items {
		runtime := n.Status.NodeInfo.ContainerRuntimeVersion
		number, containerd := strings.CutPrefix(runtime, "containerd://")
		v, err := version.ParseGeneric(number)
		if !containerd || err != nil || v.LessThan(version.MustParseGeneric("2.2")) {
			return fmt.Sprintf("node %s has %s", n.Name, runtime)
		}
	}
	return ""
}

// moveAgents sets labels in the node selector of the agents' DaemonSet.
func (c *cluster) moveAgents(t *testing.T, selector string) {
	t.Helper()
	patch := fmt.Sprintf(`{"spec": {"template": {"spec": {"nodeSelector": %s}}}}`, selector)
	_, err := c.client.AppsV1().DaemonSets(system).Patch(context.WithoutCancel(t.Context()),
		"mooring-agent", types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{})
	if err != nil {
		t.Error(err)
	}
}

func (c *cluster) agents(ctx context.Context) ([]corev1.Pod, error) {
	list, err := c.client.CoreV1().Pods(system).List(ctx, metav1.ListOptions{
		LabelSelector: "app.kubernetes.io/component=agent"})
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}
