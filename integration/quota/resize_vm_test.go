package quota

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	virtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/api/v1alpha1"
	kubevirttest "github.com/mooring-vm/mooring/integration/kubevirt"
	"github.com/mooring-vm/mooring/quota/resizevm"
)

// TestResizeVM annotates only a VirtualMachine. The controller raises the launcher's resources
// within the quota, annotates the pod, and follows the report. A new launcher gets the size again.
// The test acts as kubelet and as the node's agent.
func TestResizeVM(t *testing.T) {
	c, _ := startServing(t, "--shim-image=registry.test/mooring-shim:v1", "--resize-vms")
	setKubeVirtVersion(t, c)
	awaitWebhookCalled(t, c)
	ns := c.Namespace(t, list("requests.memory", "4Gi", "requests.cpu", "4"))
	vm := newVM(ns, "db", virtv1.RunStrategyAlways)
	vm.Spec.Template.ObjectMeta.Annotations = map[string]string{api.InjectSidecarKey: "true"}
	if err := c.Client.Create(t.Context(), vm); err != nil {
		t.Fatal(err)
	}
	awaitVMRunning(t, c, vm)
	first := onlyLauncher(t, c, vm)
	memory := requestOf(&first, corev1.ResourceMemory)

	askSize(t, c, vm, "4Gi")
	awaitResizeStatus(t, c, vm, api.ResizeNoQuota)
	same := onlyLauncher(t, c, vm)
	if got := requestOf(&same, corev1.ResourceMemory); got.Cmp(memory) != 0 {
		t.Errorf("the controller resized a pod beyond the quota, to %s", &got)
	}

	askSize(t, c, vm, "3Gi")
	pod := awaitResized(t, c, vm)
	grown := requestOf(&pod, corev1.ResourceMemory)
	grown.Sub(memory)
	if grown.Cmp(resource.MustParse("2Gi")) < 0 || grown.Cmp(resource.MustParse("2100Mi")) > 0 {
		t.Errorf("the memory request grew by %s, want 2Gi and their overhead", &grown)
	}
	reportSize(t, c, &pod, 3<<30)
	awaitResizeStatus(t, c, vm, api.ResizeDone)
	eventually(t, "an Event", func() error { return checkEvent(t, c, vm, resizevm.ReasonResized) })

	remove := func(keys ...string) error {
		patch := fmt.Sprintf(`{"metadata": {"annotations": {"%s": null}}}`,
			strings.Join(keys, `": null, "`))
		return c.Client.Patch(t.Context(), vm.DeepCopy(), merge(patch))
	}
	err := remove(api.ResizeMemoryKey, api.ResizeStatusKey)
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "mooring-vm-sizes") {
		t.Errorf("removal of size and status: %v", err)
	}
	wantPass(t, remove(api.ResizeMemoryKey))
	awaitResizeStatus(t, c, vm, api.ResizeKept)
	askSize(t, c, vm, "3Gi")
	awaitResizeStatus(t, c, vm, api.ResizeDone)

	vmi := awaitInstance(t, c, vm)
	if err := c.Client.Delete(t.Context(), vmi); err != nil {
		t.Fatal(err)
	}
	awaitRestarted(t, c, vm, vmi.UID)
	awaitVMRunning(t, c, vm)
	if again := awaitResized(t, c, vm); again.UID == first.UID {
		t.Error("the VM has not restarted")
	}
}

func onlyLauncher(
	t *testing.T, c *kubevirttest.Cluster, vm *virtv1.VirtualMachine,
) (pod corev1.Pod) {
	t.Helper()
	eventually(t, "one launcher", func() error {
		pods := c.Launchers(t, awaitInstance(t, c, vm))
		if len(pods) != 1 {
			return fmt.Errorf("%d launchers", len(pods))
		}
		pod = pods[0]
		return nil
	})
	return pod
}

func requestOf(pod *corev1.Pod, name corev1.ResourceName) resource.Quantity {
	at := slices.IndexFunc(pod.Spec.Containers,
		func(c corev1.Container) bool { return c.Name == "compute" })
	q := pod.Spec.Containers[at].Resources.Requests[name]
	return q.DeepCopy()
}

func askSize(t *testing.T, c *kubevirttest.Cluster, vm *virtv1.VirtualMachine, memory string) {
	t.Helper()
	wantPass(t, c.Client.Patch(t.Context(), vm.DeepCopy(), merge(fmt.Sprintf(
		`{"metadata": {"annotations": {%q: %q}}}`, api.ResizeMemoryKey, memory))))
}

func awaitResizeStatus(
	t *testing.T, c *kubevirttest.Cluster, vm *virtv1.VirtualMachine, want api.ResizeReason,
) {
	t.Helper()
	eventually(t, "the status "+string(want), func() error {
		if err := c.Client.Get(t.Context(), client.ObjectKeyFromObject(vm), vm); err != nil {
			return err
		}
		text := vm.Annotations[api.ResizeStatusKey]
		var status api.ResizeStatus
		if err := json.Unmarshal([]byte(text), &status); err != nil || status.Reason != want {
			return fmt.Errorf("status %q, %w", text, err)
		}
		return nil
	})
}

// awaitResized acts as kubelet until the pod of the VM asks for 3Gi, and returns the pod.
func awaitResized(
	t *testing.T, c *kubevirttest.Cluster, vm *virtv1.VirtualMachine,
) (pod corev1.Pod) {
	t.Helper()
	eventually(t, "the annotation of the pod", func() error {
		pod = onlyLauncher(t, c, vm)
		if pod.Annotations[api.ResizeMemoryKey] == "3Gi" {
			return nil
		}
		for i := range pod.Status.ContainerStatuses {
			s := &pod.Status.ContainerStatuses[i]
			if s.Name == "compute" {
				s.AllocatedResources[corev1.ResourceMemory] = requestOf(&pod,
					corev1.ResourceMemory)
			}
		}
		return errors.Join(errors.New("not annotated"), c.Client.Status().Update(t.Context(), &pod))
	})
	return pod
}

// reportSize acts as the agent of the pod's node.
func reportSize(t *testing.T, c *kubevirttest.Cluster, pod *corev1.Pod, memory int64) {
	t.Helper()
	state := &v1alpha1.NodeState{ObjectMeta: metav1.ObjectMeta{Name: "reports-" + pod.Namespace}}
	state.APIVersion, state.Kind = v1alpha1.GroupVersion().String(), "NodeState"
	state.Status.HeartbeatTime = metav1.NewTime(time.Now())
	state.Status.Launchers = []v1alpha1.LauncherReport{{
		Pod:       v1alpha1.PodReport{Namespace: pod.Namespace, Name: pod.Name, UID: string(pod.UID)},
		Container: v1alpha1.ContainerReport{Name: "compute"}, State: "Running",
		Resize: &v1alpha1.ResizeReport{State: "Done",
			Wanted: &v1alpha1.SizeReport{Memory: memory},
			Actual: &v1alpha1.SizeReport{VCPUs: 2, Memory: memory}},
	}}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(state)
	if err != nil {
		t.Fatal(err)
	}
	object := &unstructured.Unstructured{Object: content}
	if err := c.Client.Create(t.Context(), object.DeepCopy()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		if err := c.Client.Delete(ctx, object.DeepCopy()); err != nil {
			t.Error(err)
		}
	})
	eventually(t, "the status of the NodeState", func() error {
		now := object.DeepCopy()
		if err := c.Client.Get(t.Context(), client.ObjectKeyFromObject(object), now); err != nil {
			return err
		}
		now.Object["status"] = content["status"]
		return c.Client.Status().Update(t.Context(), now)
	})
}

func checkEvent(
	t *testing.T, c *kubevirttest.Cluster, vm *virtv1.VirtualMachine, reason string,
) error {
	t.Helper()
	all := &eventsv1.EventList{}
	if err := c.Client.List(t.Context(), all, client.InNamespace(vm.Namespace)); err != nil {
		return err
	}
	for i := range all.Items {
		if e := &all.Items[i]; e.Reason == reason && e.Regarding.UID == vm.UID {
			return nil
		}
	}
	return fmt.Errorf("no Event %s", reason)
}
