package deploy

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/mooring-vm/mooring/cli/uninstall"
	"github.com/mooring-vm/mooring/lifecycle/gate"
)

// cleanup returns the pod that removes the agents' files from a node.
func cleanup(t *testing.T) corev1.PodSpec {
	t.Helper()
	o := decode(t,
		render(t,
			"--set=agent.enabled=false,fence.enabled=false,nodeCleanup.enabled=true"))["DaemonSet mooring-node-cleanup"]
	set := &appsv1.DaemonSet{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, set); err != nil {
		t.Fatal(err)
	}
	return set.Spec.Template.Spec
}

// TestNodeCleanup runs the pod's commands on a directory in place of the node.
func TestNodeCleanup(t *testing.T) {
	spec, host, node := cleanup(t), t.TempDir(), uninstall.DefaultNode()
	libvirt := filepath.Dir(filepath.Dir(gate.ConfigPath))
	for _, dir := range []string{node.BPFDir, node.Hooks[1], gate.HookPath} {
		if err := os.MkdirAll(filepath.Join(host, dir, "left"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	// To unmount /sys/fs/bpf, the pod needs the parent's mount.
	for _, dir := range []string{filepath.Dir(filepath.Dir(node.BPFDir)),
		filepath.Dir(node.Hooks[1]), filepath.Dir(node.Root), libvirt} {
		if !mounted(spec.InitContainers[0], "/host"+dir) {
			t.Errorf("the node's %s is not mounted", dir)
		}
	}
	var args []string
	for _, arg := range spec.InitContainers[0].Args {
		args = append(args, strings.Replace(arg, "/host", host, 1))
	}
	if out, err := mooring(t.Context(), args...); err != nil ||
		!strings.Contains(out, "remove "+gate.HookPath+": done\n"+
			"remove /sys/fs/bpf/mooring: done\nremove /opt/mooring: done\n") {
		t.Errorf("%v, printed %q", err, out)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	// A separate file system has no such files.
	if out, err := mooring(ended, append(spec.Containers[0].Args, "--host="+t.TempDir())...); err !=
		nil || out != "nothing to remove\n" {
		t.Errorf("%v, printed %q", err, out)
	}
}

// TestNodeConfigure checks the init container that configures containerd, and runs its command on a
// directory without a containerd.
func TestNodeConfigure(t *testing.T) {
	for restart, values := range map[bool]string{false: "containerd.configure=true",
		true: "containerd.configure=true,containerd.restart=true"} {
		spec := agentSpec(t, render(t, "--is-upgrade", "--set="+values))
		last := len(spec.InitContainers) - 1
		c := spec.InitContainers[last]
		if c.Name != "containerd" || !*c.SecurityContext.Privileged || !mounted(c, "/host") ||
			slices.Contains(c.Args, "--restart") != restart {
			t.Errorf("%s: the last init container is %+v", values, c)
		}
		root := c.VolumeMounts[0].Name
		if !slices.ContainsFunc(spec.Volumes, func(v corev1.Volume) bool {
			return v.Name == root && v.HostPath != nil && v.HostPath.Path == "/"
		}) {
			t.Errorf("%s: no volume %s with the node's files", values, root)
		}
		if slices.ContainsFunc(spec.Containers[0].VolumeMounts, func(m corev1.VolumeMount) bool {
			return m.Name == root && !m.ReadOnly
		}) {
			t.Errorf("%s: the agent can write the node's files, too", values)
		}
		host := t.TempDir()
		c.Args[slices.Index(c.Args, "--root=/host")] = "--root=" + host
		if _, err := mooring(t.Context(), c.Args...); err == nil ||
			!strings.Contains(err.Error(), "no containerd found on the node with root "+host) {
			t.Errorf("%s: %v", values, err)
		}
	}
	for _, c := range agentSpec(t, render(t)).InitContainers {
		if c.Name == "containerd" {
			t.Error("the chart configures containerd by default")
		}
	}
	if out, err := helm(t, "template", chart, "--namespace="+system,
		"--set=containerd.restart=true"); err == nil ||
		!strings.Contains(out, "want containerd.configure=true") {
		t.Errorf("restart without configure: %v, printed %q", err, out)
	}
}

// agentSpec returns the pod of the agent's DaemonSet.
func agentSpec(t *testing.T, manifest string) corev1.PodSpec {
	t.Helper()
	set := &appsv1.DaemonSet{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(
		decode(t, manifest)["DaemonSet mooring-agent"].Object, set); err != nil {
		t.Fatal(err)
	}
	return set.Spec.Template.Spec
}

func mounted(c corev1.Container, path string) bool {
	for _, m := range c.VolumeMounts {
		if m.MountPath == path {
			return true
		}
	}
	return false
}
