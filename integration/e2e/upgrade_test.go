package e2e

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestUpgrade installs the last release, starts a VM, and follows docs/how-to/upgrade.md: the
// agents first, then the controller. The VM keeps its process and its lock, and the new agent ends
// it with its launcher. By its file's name it runs after TestUninstall.
func TestUpgrade(t *testing.T) {
	c := startWithout(t)
	was, is := last(t), current()
	if c.installed {
		c.uninstall(t) // without TestUninstall, as with -run
	}
	c.install(t, was, "enforce")
	pod := escaping("survivor", withDevice())
	c.create(t, pod)
	c.awaitRunning(t, "survivor")
	c.awaitEvent(t, "survivor", "VMStarted")
	vm := c.processOf(t, "survivor", emulator)

	c.upgrade(t, was, "--reset-then-reuse-values", "--set=images.agent.tag="+is.tag)
	c.wantImages(t, map[string]string{"agent": is.tag, "fence": is.tag, "controller": was.tag})
	c.wantSurvivor(t, vm)
	c.upgrade(t, is, "--reset-then-reuse-values", "--set=images.controller.tag="+is.tag)
	c.wantImages(t, map[string]string{"agent": is.tag, "fence": is.tag, "controller": is.tag})
	c.wantSurvivor(t, vm)

	c.killLauncher(t, "survivor")
	c.awaitEvent(t, "survivor", "VMTerminated")
	c.awaitEvent(t, "survivor", "VMGone")
	c.delete(t, pod)
	c.uninstall(t)
}

// wantSurvivor expects the launcher and its VM to be undisturbed.
func (c *cluster) wantSurvivor(t *testing.T, vm string) {
	t.Helper()
	if now := c.processOf(t, "survivor", emulator); now != vm {
		t.Errorf("the VM was process %s and is process %s", vm, now)
	}
	want := fmt.Sprintf("memlock %d %d", lock, lock)
	if got := c.run(t, "survivor", "limits", vm); got != want {
		t.Errorf("the VM has %q, want %q", got, want)
	}
	pod, err := c.client.CoreV1().Pods(namespace).Get(t.Context(), "survivor", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if pod.Status.Phase != corev1.PodRunning {
		t.Errorf("the launcher is %s", pod.Status.Phase)
	}
}

// wantImages waits until each component's pods are ready and have images with this tag.
func (c *cluster) wantImages(t *testing.T, tags map[string]string) {
	t.Helper()
	names := map[string]string{"agent": "mooring-agent", "fence": "mooring-agent",
		"controller": "mooring-controller"}
	for component, tag := range tags {
		want := imageOf(names[component], tag)
		eventually(t, component+" with image "+want, func(ctx context.Context) error {
			pods, err := c.client.CoreV1().Pods(system).List(ctx, metav1.ListOptions{
				LabelSelector: "app.kubernetes.io/component=" + component})
			if err != nil {
				return err
			}
			if len(pods.Items) == 0 {
				return fmt.Errorf("no pod of component %s", component)
			}
			for _, pod := range pods.Items {
				if got := pod.Spec.Containers[0].Image; got != want {
					return fmt.Errorf("pod %s has image %s", pod.Name, got)
				}
				if s := pod.Status.ContainerStatuses; len(s) == 0 || !s[0].Ready {
					return fmt.Errorf("pod %s is not ready", pod.Name)
				}
			}
			return nil
		})
	}
}
