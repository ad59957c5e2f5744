package e2e

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestLauncherKilled kills a launcher whose VM would go on. The agent ends the VM.
func TestLauncherKilled(t *testing.T) {
	c := start(t)
	c.create(t, escaping("killed", nil))
	c.awaitRunning(t, "killed")
	c.awaitEvent(t, "killed", "VMStarted")
	c.killLauncher(t, "killed")
	c.awaitEvent(t, "killed", "OwnerGone")
	c.awaitEvent(t, "killed", "VMTerminated")
	c.awaitEvent(t, "killed", "VMGone")
}

// escaping is a launcher whose VM outlives its container, because the VM is in a cgroup outside of
// its pod. The second container keeps the pid namespace and shows the VM.
func escaping(name string, annotations map[string]string) *corev1.Pod {
	pod := launcher(name, annotations, "--vm", "--elsewhere")
	pod.Spec.ShareProcessNamespace = new(true)
	pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: beside,
		Image: image("e2e-launcher"), Args: []string{"run"}})
	for i := range pod.Spec.Containers {
		pod.Spec.Containers[i].SecurityContext = &corev1.SecurityContext{Privileged: new(true)}
	}
	return pod
}

// beside is the second container of an escaping launcher.
const beside = "beside"

// killLauncher kills the launcher process of an escaping launcher, from the container beside it.
func (c *cluster) killLauncher(t *testing.T, pod string) {
	t.Helper()
	if _, err := c.exec(t.Context(), namespace, pod, beside, "/usr/bin/launcher", "kill",
		c.processOf(t, pod, "/usr/bin/launcher")); err != nil {
		t.Fatal(err)
	}
}

// processOf is the lowest pid of this program in a pod, in the pod's pid namespace. Higher ones are
// commands of this suite.
func (c *cluster) processOf(t *testing.T, pod, program string) string {
	t.Helper()
	pid := c.findProcess(t, pod, "compute", program)
	if pid == "" {
		t.Fatalf("no process of pod %s runs %s", pod, program)
	}
	return pid
}

// findProcess is processOf from this container of the pod. It is empty without such a process.
func (c *cluster) findProcess(t *testing.T, pod, container, program string) string {
	t.Helper()
	out, err := c.exec(t.Context(), namespace, pod, container, "/usr/bin/launcher", "processes")
	if err != nil {
		t.Fatal(err)
	}
	lowest := 0
	for line := range strings.Lines(out) {
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
		return ""
	}
	return strconv.Itoa(lowest)
}

// TestAgentKilled ends the agent's pod while a VM runs. The VM goes on, and the new agent ends it
// with its launcher.
func TestAgentKilled(t *testing.T) {
	c := start(t)
	c.create(t, escaping("kept", nil))
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
	c.killLauncher(t, "kept")
	c.awaitEvent(t, "kept", "VMTerminated")
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
