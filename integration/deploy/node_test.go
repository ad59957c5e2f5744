package deploy

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/mooring-vm/mooring/cli/uninstall"
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
	for _, dir := range []string{node.BPFDir, node.Hooks[1]} {
		if err := os.MkdirAll(filepath.Join(host, dir, "left"), 0o755); err != nil {
			t.Fatal(err)
		}
		if !mounted(spec.InitContainers[0], "/host"+filepath.Dir(dir)) {
			t.Errorf("the node's %s is not mounted", filepath.Dir(dir))
		}
	}
	if !mounted(spec.InitContainers[0], "/host"+filepath.Dir(node.Root)) {
		t.Errorf("the node's %s is not mounted", filepath.Dir(node.Root))
	}
	var args []string
	for _, arg := range spec.InitContainers[0].Args {
		args = append(args, strings.Replace(arg, "/host", host, 1))
	}
	if out, err := mooring(t.Context(), args...); err != nil ||
		!strings.Contains(out, "remove /sys/fs/bpf/mooring: done\nremove /opt/mooring: done\n") {
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

func mounted(c corev1.Container, path string) bool {
	for _, m := range c.VolumeMounts {
		if m.MountPath == path {
			return true
		}
	}
	return false
}
