package kubevirtnode

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mooring-vm/mooring/hack/kubevirtnode"
	"github.com/mooring-vm/mooring/shim/virt/virttest/guest"
)

// newVMI is a VM with the tests' guest. Without a CPU model, the emulated QEMU of an emulated node
// would start much slower.
func newVMI(name string, annotations map[string]string) *kubevirtv1.VirtualMachineInstance {
	memory := resource.MustParse("128Mi")
	no := false
	vmi := &kubevirtv1.VirtualMachineInstance{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace, Annotations: annotations},
	}
	// Most tests run their commands on this node.
	vmi.Spec.NodeSelector = map[string]string{corev1.LabelHostname: kubevirtnode.NodeName(1)}
	// KubeVirt waits so long for a guest that has not booted.
	vmi.Spec.TerminationGracePeriodSeconds = new(int64(10))
	d := &vmi.Spec.Domain
	d.CPU = &kubevirtv1.CPU{Sockets: 1, Cores: 1, Threads: 1, Model: "Westmere"}
	d.Memory = &kubevirtv1.Memory{Guest: &memory}
	d.Resources.Requests = corev1.ResourceList{corev1.ResourceMemory: memory}
	d.Devices.AutoattachGraphicsDevice, d.Devices.AutoattachPodInterface = &no, &no
	d.Firmware = &kubevirtv1.Firmware{KernelBoot: &kubevirtv1.KernelBoot{
		KernelArgs: guest.Arguments,
		Container: &kubevirtv1.KernelBootContainer{
			Image: kubevirtnode.GuestImage, ImagePullPolicy: corev1.PullNever,
			KernelPath: kubevirtnode.KernelPath, InitrdPath: kubevirtnode.InitramfsPath,
		},
	}}
	return vmi
}

// create creates a VM. It is deleted when t ends.
func (c *cluster) create(t *testing.T, vmi *kubevirtv1.VirtualMachineInstance) {
	t.Helper()
	if err := c.Create(t.Context(), vmi); err != nil {
		t.Fatal(err)
	}
	ctx := context.WithoutCancel(t.Context())
	t.Cleanup(func() {
		if t.Failed() {
			c.describe(ctx, t, vmi)
		}
		if err := c.remove(ctx, vmi); err != nil {
			t.Error(err)
		}
	})
}

// run creates a VM and returns when it runs. It is deleted when t ends.
func (c *cluster) run(t *testing.T, vmi *kubevirtv1.VirtualMachineInstance) {
	t.Helper()
	c.create(t, vmi)
	c.awaitPhase(t, vmi, kubevirtv1.Running)
}

// remove deletes a VM and returns when the VM and its launcher are gone.
func (c *cluster) remove(ctx context.Context, vmi *kubevirtv1.VirtualMachineInstance) error {
	if err := c.Delete(ctx, vmi); err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	return await(ctx, vmi.Name+" to be gone", func(ctx context.Context) error {
		err := c.Get(ctx, client.ObjectKeyFromObject(vmi), &kubevirtv1.VirtualMachineInstance{})
		if !apierrors.IsNotFound(err) {
			return fmt.Errorf("the VMI is there, or: %w", err)
		}
		pods, err := c.launchers(ctx, vmi)
		if err != nil || len(pods) > 0 {
			return fmt.Errorf("%d launchers are there, or: %w", len(pods), err)
		}
		return nil
	})
}

func (c *cluster) awaitPhase(
	t *testing.T, vmi *kubevirtv1.VirtualMachineInstance,
	want kubevirtv1.VirtualMachineInstancePhase,
) {
	t.Helper()
	eventually(t, vmi.Name+" to be "+string(want), func(ctx context.Context) error {
		if err := c.Get(ctx, client.ObjectKeyFromObject(vmi), vmi); err != nil {
			return err
		}
		if vmi.Status.Phase != want {
			return fmt.Errorf("phase %s, conditions %v", vmi.Status.Phase, vmi.Status.Conditions)
		}
		return nil
	})
}

// launchers are the launcher pods of a VM.
func (c *cluster) launchers(
	ctx context.Context, vmi *kubevirtv1.VirtualMachineInstance,
) ([]corev1.Pod, error) {
	pods := &corev1.PodList{}
	err := c.List(ctx, pods, client.InNamespace(vmi.Namespace),
		client.MatchingLabels{kubevirtv1.CreatedByLabel: string(vmi.UID)})
	return pods.Items, err
}

// launcher is the living launcher pod of a VM on the VM's node.
func (c *cluster) launcher(t *testing.T, vmi *kubevirtv1.VirtualMachineInstance) *corev1.Pod {
	t.Helper()
	pods, err := c.launchers(t.Context(), vmi)
	if err != nil {
		t.Fatal(err)
	}
	pods = slices.DeleteFunc(pods, func(p corev1.Pod) bool {
		return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed ||
			p.Spec.NodeName != vmi.Status.NodeName
	})
	if len(pods) != 1 {
		t.Fatalf("%s has %d launchers, want 1", vmi.Name, len(pods))
	}
	return &pods[0]
}

// describe logs the state of a VM, and the Events of its namespace.
func (c *cluster) describe(
	ctx context.Context, t *testing.T, vmi *kubevirtv1.VirtualMachineInstance,
) {
	t.Helper()
	now := &kubevirtv1.VirtualMachineInstance{}
	if err := c.Get(ctx, client.ObjectKeyFromObject(vmi), now); err == nil {
		t.Logf("VMI %s: %s %v", now.Name, now.Status.Phase, now.Status.Conditions)
	}
	if pods, err := c.launchers(ctx, vmi); err == nil {
		for _, p := range pods {
			t.Logf("pod %s: %s %v", p.Name, p.Status.Phase, p.Status.ContainerStatuses)
		}
	}
	events := &corev1.EventList{}
	if err := c.List(ctx, events, client.InNamespace(vmi.Namespace)); err != nil {
		t.Log(err)
	}
	for _, e := range events.Items {
		t.Logf("%s %s %s %s: %s", e.LastTimestamp.Format("15:04:05"), e.InvolvedObject.Name, e.Type,
			e.Reason, e.Message)
	}
}

// events are the Events on an object of the suite's namespace, as lines of reason and text.
func (c *cluster) events(ctx context.Context, object string) ([]string, error) {
	list := &corev1.EventList{}
	err := c.List(ctx, list, client.InNamespace(namespace),
		client.MatchingFields{"involvedObject.name": object})
	var lines []string
	for _, e := range list.Items {
		lines = append(lines, e.Reason+": "+e.Message)
	}
	return lines, err
}

func (c *cluster) awaitEvent(t *testing.T, object, reason string) {
	t.Helper()
	c.awaitEventWith(t, object, reason+": ")
}

// awaitEventWith waits for an Event on an object whose reason and text contain a text.
func (c *cluster) awaitEventWith(t *testing.T, object, text string) {
	t.Helper()
	eventually(t, "Event "+text+" on "+object, func(ctx context.Context) error {
		lines, err := c.events(ctx, object)
		if err != nil {
			return err
		}
		for _, line := range lines {
			if strings.Contains(line, text) {
				return nil
			}
		}
		return fmt.Errorf("Events are\n%s", strings.Join(lines, "\n"))
	})
}
