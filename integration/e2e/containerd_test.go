package e2e

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// configureContainerd upgrades with these values, and follows docs/how-to/containerd.md. The
// chart's container enables the validator on all nodes, and restarts containerd in a second step.
// hack/kind has enabled the validator before, so the container reports no change there.
func (c *cluster) configureContainerd(t *testing.T, values ...string) {
	t.Helper()
	values = append([]string{"--reset-then-reuse-values"}, values...)
	if node := c.withoutValidator(t); node != "" {
		t.Log("without containerd.configure: " + node)
		c.upgrade(t, current(), values...)
		return
	}
	c.upgrade(t, current(), append(values, "--set=containerd.configure=true")...)
	changed := false
	for node, log := range c.containerdLogs(t) {
		if strings.HasSuffix(log, ": nothing to change") {
			continue
		}
		changed = true
		if !containsAll(log, []string{dropIn + ": written",
			"the change needs a restart of containerd"}) {
			t.Errorf("node %s: the chart's container reports %q", node, log)
		}
	}
	if !changed {
		return
	}
	c.wroteDropIn = true
	c.upgrade(t, current(), "--reset-then-reuse-values", "--set=containerd.restart=true")
	for node, log := range c.containerdLogs(t) {
		if !containsAll(log, []string{"systemctl restart containerd", ": done"}) {
			t.Errorf("node %s: the chart's container reports %q", node, log)
		}
	}
}

// dropIn is the file of the chart's container on a node.
const dropIn = "/etc/containerd/conf.d/mooring.toml"

// containerdLogs are the outputs of the chart's container by node.
func (c *cluster) containerdLogs(t *testing.T) map[string]string {
	t.Helper()
	logs := map[string]string{}
	for node, agent := range c.agentsByNode(t) {
		out, err := c.client.CoreV1().Pods(system).GetLogs(agent.Name,
			&corev1.PodLogOptions{Container: "containerd"}).DoRaw(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		logs[node] = strings.TrimSpace(string(out))
	}
	return logs
}

// undoContainerd removes the drop-in of the chart's container from each node, as root there.
func (c *cluster) undoContainerd(t *testing.T) {
	t.Helper()
	if !c.wroteDropIn {
		return
	}
	nodes, err := c.client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range nodes.Items {
		pod := nodePod("undo", n.Name, image("mooring-agent"), "/usr/local/bin/mooring", "node",
			"configure", "--undo", "--restart", "--root=/node")
		pod.Spec.HostPID = true // systemctl and systemd identify each other by pid
		pod.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{Privileged: new(true)}
		out, err := c.runPod(t, pod)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("node %s: %s", n.Name, out)
	}
	c.wroteDropIn = false
}
