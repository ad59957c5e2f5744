package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
)

// TestUninstall is the last test of this package, by its file's name.
func TestUninstall(t *testing.T) {
	start(t).uninstall(t)
}

// uninstall follows docs/how-to/uninstall.md and looks for remains on every node and in the API.
func (c *cluster) uninstall(t *testing.T) {
	t.Helper()
	c.installed = false
	c.upgrade(t, current(), "--reset-then-reuse-values", "--set=agent.enabled=false",
		"--set=fence.enabled=false", "--set=nodeCleanup.enabled=true")
	if _, err := helm(t.Context(), "uninstall", "mooring", "--namespace="+system, "--wait",
		"--timeout=15m"); err != nil {
		t.Fatal(err)
	}
	c.undoContainerd(t)
	c.checkNodes(t)
	for _, name := range []string{system, namespace} {
		if err := c.deleteNamespace(t.Context(), name); err != nil {
			t.Fatal(err)
		}
	}
	c.checkAPI(t)
}

func (c *cluster) deleteNamespace(ctx context.Context, name string) error {
	namespaces := c.client.CoreV1().Namespaces()
	if err := namespaces.Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
		return err
	}
	return await(ctx, "namespace "+name+" to be gone", func(ctx context.Context) error {
		_, err := namespaces.Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return errors.Join(err, errors.New("it is there"))
	})
}

// checkNodes lists what Mooring may leave on a node, in a pod with the node's root file system.
func (c *cluster) checkNodes(t *testing.T) {
	t.Helper()
	nodes, err := c.client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range nodes.Items {
		mounts, err := c.onNode(t, n.Name, "mounts", "mooring")
		if err != nil {
			t.Fatal(err)
		}
		if mounts != "" {
			t.Errorf("node %s: mounts are left:\n%s", n.Name, mounts)
		}
		out, err := c.onNode(t, n.Name, "list", "/node/run/mooring", "/node/sys/fs/bpf/mooring",
			"/node/opt/mooring", "/node/etc/mooring", "/node/var/lib/mooring", "/node"+dropIn)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(out) {
			if path := strings.TrimSpace(line); path != "" && path != "/node/run/mooring" {
				t.Errorf("node %s: %s is left", n.Name, strings.TrimPrefix(path, "/node"))
			}
		}
	}
}

// onNode runs the suite's program in a pod of a node, and returns its output.
func (c *cluster) onNode(t *testing.T, node string, args ...string) (string, error) {
	t.Helper()
	pod := nodePod("look", node, image("e2e-launcher"), append([]string{"/usr/bin/launcher"},
		args...)...)
	pod.Spec.Containers[0].VolumeMounts[0].ReadOnly = true
	return c.runPod(t, pod)
}

// nodePod is a pod on a node that runs a command once. It has the node's files in /node.
func nodePod(name, node, image string, command ...string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: system},
		Spec: corev1.PodSpec{
			NodeName: node, RestartPolicy: corev1.RestartPolicyNever,
			Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
			Containers: []corev1.Container{{
				Name: name, Image: image, Command: command,
				VolumeMounts: []corev1.VolumeMount{{Name: "node", MountPath: "/node"}},
			}},
			Volumes: []corev1.Volume{{Name: "node", VolumeSource: corev1.VolumeSource{
				HostPath: &corev1.HostPathVolumeSource{Path: "/"}}}},
		},
	}
}

// runPod runs a pod to its end, and returns the output of its first container.
func (c *cluster) runPod(t *testing.T, pod *corev1.Pod) (string, error) {
	t.Helper()
	pods := c.client.CoreV1().Pods(pod.Namespace)
	if _, err := pods.Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		return "", err
	}
	defer func() {
		ctx := context.WithoutCancel(t.Context())
		if err := errors.Join(pods.Delete(ctx, pod.Name, metav1.DeleteOptions{}),
			c.awaitGone(ctx, pod.Namespace, pod.Name)); err != nil {
			t.Error(err)
		}
	}()
	phase := corev1.PodPhase("")
	eventually(t, "the end of pod "+pod.Name, func(ctx context.Context) error {
		now, err := pods.Get(ctx, pod.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		phase = now.Status.Phase
		if phase != corev1.PodSucceeded && phase != corev1.PodFailed {
			return fmt.Errorf("phase %s", phase)
		}
		return nil
	})
	out, err := pods.GetLogs(pod.Name, &corev1.PodLogOptions{}).DoRaw(t.Context())
	if err == nil && phase == corev1.PodFailed {
		err = fmt.Errorf("pod %s failed: %s", pod.Name, out)
	}
	return string(out), err
}

// checkAPI looks for objects of Mooring of every kind, except the suite's own namespaces.
func (c *cluster) checkAPI(t *testing.T) {
	t.Helper()
	client, err := dynamic.NewForConfig(c.config)
	if err != nil {
		t.Fatal(err)
	}
	_, lists, err := c.client.Discovery().ServerGroupsAndResources()
	if err != nil {
		t.Fatal(err)
	}
	nodes, err := c.client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	// Some objects have a node's name, and kind names its nodes after the cluster.
	var names []string
	for _, n := range nodes.Items {
		names = append(names, n.Name, "")
	}
	withoutNodes := strings.NewReplacer(names...).Replace
	for _, list := range discovery.FilteredBy(discovery.SupportsAllVerbs{Verbs: []string{"list"}},
		lists) {
		if strings.Contains(list.GroupVersion, "mooring.dev/") {
			t.Errorf("the API still serves %s", list.GroupVersion)
		}
		for _, r := range list.APIResources {
			c.checkKind(t, client, list.GroupVersion, r, withoutNodes)
		}
	}
}

// checkKind reports objects of one kind with Mooring's name or label. Events expire by themselves.
func (c *cluster) checkKind(
	t *testing.T, client dynamic.Interface, groupVersion string, r metav1.APIResource,
	withoutNodes func(string) string,
) {
	t.Helper()
	if r.Name == "events" {
		return
	}
	gv, err := schema.ParseGroupVersion(groupVersion)
	if err != nil {
		t.Fatal(err)
	}
	list, err := client.Resource(gv.WithResource(r.Name)).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Errorf("listing %s: %v", r.Name, err)
		return
	}
	for _, o := range list.Items {
		named := strings.Contains(withoutNodes(o.GetName()), "mooring")
		if named || o.GetLabels()["app.kubernetes.io/name"] == "mooring" {
			t.Errorf("%s %s/%s is left", o.GetKind(), o.GetNamespace(), o.GetName())
		}
	}
}
