package kubevirtnode

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/api/podapi"
)

// TestResize raises and lowers the memory limit of a launcher with mooring-shim. The guest follows.
// The VM has KubeVirt's live updates, the default for a guest of 1Gi or more, and no other
// preparation.
func TestResize(t *testing.T) {
	c := start(t)
	c.requireMooring(t)
	vmi := newResizable("resized", "follow-limits")
	guest := vmi.Spec.Domain.Memory.Guest
	c.run(t, vmi)
	pod := c.tied(t, vmi).Pod.Name
	limit := compute(t, c.launcher(t, vmi)).Resources.Limits.Memory()

	larger := limit.DeepCopy()
	larger.Add(resource.MustParse("512Mi"))
	c.resizePod(t, vmi, larger)
	// The overhead grows by 1 MiB of page tables, and memory is plugged in blocks of 2 MiB.
	c.awaitMemory(t, pod, guest.Value()+510<<20)
	c.resizePod(t, vmi, *limit)
	c.awaitMemory(t, pod, guest.Value())
}

// TestSlowLibvirt stops virtqemud again and again while mooring-shim resizes its VM. The shim takes
// it for slow, not for gone. Not each query leaves an error in virt-launcher's log.
func TestSlowLibvirt(t *testing.T) {
	c := start(t)
	c.requireMooring(t)
	vmi := newResizable("slow-libvirt", "follow-limits")
	guest := vmi.Spec.Domain.Memory.Guest
	c.run(t, vmi)
	pod := c.tied(t, vmi).Pod.Name
	c.onNode(t, "systemd-run", "--collect", "sh", "-c", `for i in 1 2 3 4 5 6; do
		kill -STOP "$1"; sleep 8; kill -CONT "$1"; sleep 3; done`, "sh", c.virtqemud(t, vmi))

	limit := compute(t, c.launcher(t, vmi)).Resources.Limits.Memory()
	limit.Add(resource.MustParse("256Mi"))
	c.resizePod(t, vmi, *limit)
	c.awaitMemory(t, pod, guest.Value()+254<<20)
	if log := c.podLog(t, pod, "mooring-shim"); strings.Contains(log, "libvirt is away") {
		t.Errorf("the shim took a slow libvirt for gone:\n%s", log)
	}
	log := c.podLog(t, pod, "compute")
	if n := strings.Count(log, "not available in session mode"); n > 1 { // one for a connection
		t.Errorf("%d queries of the shim failed in virtqemud:\n%s", n, log)
	}
}

// podLog is the log of a container on the node.
func (c *cluster) podLog(t *testing.T, pod, container string) string {
	t.Helper()
	return c.onNode(t, "sh", "-c", "cat /var/log/pods/$1_$2_*/$3/*.log", "sh", namespace, pod,
		container)
}

// newResizable is a VM with 1Gi, room for another one, and mooring-shim. The annotation for the
// shim has this value.
func newResizable(name, sidecar string) *kubevirtv1.VirtualMachineInstance {
	vmi := newVMI(name, map[string]string{api.InjectSidecarKey: sidecar})
	guest, most := resource.MustParse("1Gi"), resource.MustParse("2Gi")
	d := &vmi.Spec.Domain
	d.Memory = &kubevirtv1.Memory{Guest: &guest, MaxGuest: &most}
	d.Resources.Requests[corev1.ResourceMemory] = guest
	d.Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: guest}
	return vmi
}

// compute is the container with the VM.
func compute(t *testing.T, pod *corev1.Pod) *corev1.Container {
	t.Helper()
	for i := range pod.Spec.Containers {
		if pod.Spec.Containers[i].Name == "compute" {
			return &pod.Spec.Containers[i]
		}
	}
	t.Fatalf("pod %s has no container compute", pod.Name)
	return nil
}

// resizePod changes the memory limit of a VM's launcher, as `kubectl patch --subresource resize`.
func (c *cluster) resizePod(
	t *testing.T, vmi *kubevirtv1.VirtualMachineInstance, limit resource.Quantity,
) {
	t.Helper()
	patch := fmt.Appendf(nil, `{"spec": {"containers": [{"name": "compute",
		"resources": {"limits": {"memory": %q}}}]}}`, limit.String())
	if err := c.SubResource("resize").Patch(t.Context(), c.launcher(t, vmi),
		client.RawPatch(types.StrategicMergePatchType, patch)); err != nil {
		t.Fatal(err)
	}
}

// awaitMemory waits until the pod reports that the guest has this memory.
func (c *cluster) awaitMemory(t *testing.T, pod string, bytes int64) {
	t.Helper()
	c.awaitReport(t, pod, func(l agentapi.Launcher) error { return wantMemory(l, bytes) })
}

// awaitReport waits until check accepts the resize of a launcher.
func (c *cluster) awaitReport(t *testing.T, pod string, check func(agentapi.Launcher) error) {
	t.Helper()
	eventually(t, "the size of "+pod, func(ctx context.Context) error {
		all, err := listLaunchers(ctx)
		if err != nil {
			return err
		}
		for _, l := range all {
			if l.Pod.Name == pod && l.Resize != nil {
				return check(l)
			}
		}
		return fmt.Errorf("launchers are %+v", all)
	})
}

func wantMemory(l agentapi.Launcher, bytes int64) error {
	r := l.Resize.Report
	if r.State != podapi.StateDone || r.Actual == nil || int64(r.Actual.Memory) != bytes {
		return fmt.Errorf("the resize is %+v, actual size %+v", r, r.Actual)
	}
	return nil
}
