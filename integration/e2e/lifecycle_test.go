package e2e

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestLauncherKilled kills a launcher whose VM would go on. The agent ends the VM.
func TestLauncherKilled(t *testing.T) {
	c := start(t)
	pod := launcher("killed", nil, "--vm")
	pod.Spec.ShareProcessNamespace = new(true) // the VM survives the container's first process
	c.create(t, pod)
	c.awaitRunning(t, "killed")
	c.awaitEvent(t, "killed", "VMStarted")
	c.run(t, "killed", "kill", c.processOf(t, "killed", "/usr/bin/launcher"))
	c.awaitEvent(t, "killed", "OwnerGone")
	c.awaitEvent(t, "killed", "VMGone")
}

// processOf is the lowest pid of this program in a pod, in the pod's pid namespace. Higher ones are
// commands of this suite.
func (c *cluster) processOf(t *testing.T, pod, program string) string {
	t.Helper()
	lowest := 0
	for line := range strings.Lines(c.run(t, pod, "processes")) {
		text, exe, _ := strings.Cut(strings.TrimSpace(line), " ")
		pid, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		if exe == program && (lowest == 0 || pid < lowest) {
			lowest = pid
		}
	}
	if lowest == 0 {
		t.Fatalf("no process of pod %s runs %s", pod, program)
	}
	return strconv.Itoa(lowest)
}

// TestAgentKilled ends the agent's pod while a VM runs. The VM goes on, and the new agent ends it
// with its launcher.
func TestAgentKilled(t *testing.T) {
	c := start(t)
	pod := launcher("kept", nil, "--vm")
	pod.Spec.ShareProcessNamespace = new(true)
	c.create(t, pod)
	c.awaitRunning(t, "kept")
	c.awaitEvent(t, "kept", "VMStarted")
	agents, err := c.agents(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range agents {
		if err := c.client.CoreV1().Pods(system).Delete(t.Context(), a.Name,
			metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "new agents", func(ctx context.Context) error {
		now, err := c.agents(ctx)
		if err != nil {
			return err
		}
		for _, a := range now {
			for _, old := range agents {
				if a.UID == old.UID {
					return fmt.Errorf("%s is there", a.Name)
				}
			}
		}
		return nil
	})
	if err := c.awaitMooring(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.processOf(t, "kept", emulator)
	c.run(t, "kept", "kill", c.processOf(t, "kept", "/usr/bin/launcher"))
	c.awaitEvent(t, "kept", "VMGone")
}

// TestPreStop deletes a pod whose VM ignores SIGTERM. The preStop hook asks the agent, and the agent
// ends the VM before the pod's grace period is over.
func TestPreStop(t *testing.T) {
	c := start(t)
	pod := launcher("prestop", nil, "--vm", "--stubborn")
	pod.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{
		Exec: &corev1.ExecAction{Command: []string{"/run/mooring/hook", "prestop"}}}}
	c.create(t, pod)
	c.awaitRunning(t, "prestop")
	c.awaitEvent(t, "prestop", "VMStarted")
	if err := c.client.CoreV1().Pods(namespace).Delete(t.Context(), "prestop",
		metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	c.awaitEvent(t, "prestop", "StopRequested")
	c.awaitEvent(t, "prestop", "VMKilled")
	c.awaitEvent(t, "prestop", "StopConfirmed")
	if err := c.awaitGone(t.Context(), namespace, "prestop"); err != nil {
		t.Fatal(err)
	}
}

// TestDrain evicts a launcher, as `kubectl drain` does. The VM ends by SIGTERM, before its pod.
func TestDrain(t *testing.T) {
	c := start(t)
	c.create(t, launcher("drained", nil, "--vm"))
	c.awaitRunning(t, "drained")
	c.awaitEvent(t, "drained", "VMStarted")
	if err := c.client.PolicyV1().Evictions(namespace).Evict(t.Context(), &policyv1.Eviction{
		ObjectMeta: metav1.ObjectMeta{Name: "drained", Namespace: namespace}}); err != nil {
		t.Fatal(err)
	}
	c.awaitEvent(t, "drained", "VMGone")
	if err := c.awaitGone(t.Context(), namespace, "drained"); err != nil {
		t.Fatal(err)
	}
}
