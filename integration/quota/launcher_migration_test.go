package quota

import (
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	virtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mooring-vm/mooring/api"
	kubevirttest "github.com/mooring-vm/mooring/integration/kubevirt"
)

// testMigratedLock migrates a VM. KubeVirt copies the user's annotations to the target, and the
// webhook adds the missing ones.
func testMigratedLock(t *testing.T, c *kubevirttest.Cluster) {
	object, source := launch(t, c, c.Namespace(t, nil),
		annotate(api.DevicesKey, "vdpa=2", api.ValueKey, "1Gi", api.RequiresLockKey, "true"))
	if got := agentLock(t, source, "amd64"); got == nil || int64(*got) < 4<<30 {
		t.Errorf("%v gives %v, want at least twice 1Gi, and 2Gi more", webhookAnnotations(source),
			got)
	}
	c.AwaitRunning(t, object)
	target := migrate(t, c, object)
	if diff := cmp.Diff(webhookAnnotations(source), webhookAnnotations(target)); diff != "" {
		t.Errorf("source and target differ:\n%s", diff)
	}
}

// migrate migrates a VM and returns the target pod.
func migrate(
	t *testing.T, c *kubevirttest.Cluster, object *virtv1.VirtualMachineInstance,
) *corev1.Pod {
	t.Helper()
	m := c.Migrate(t, object)
	m.Await(t, virtv1.MigrationSucceeded)
	return m.Target(t)
}

// limited gives a VM limits. Kubernetes resizes only existing limits.
func limited(v *virtv1.VirtualMachineInstance) {
	v.Spec.Domain.Resources.Limits = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(
		"2"), corev1.ResourceMemory: resource.MustParse("2Gi")}
	v.Spec.Domain.Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(
		"1"), corev1.ResourceMemory: resource.MustParse("1Gi")}
}

// resize patches the resize subresource like kubectl. It sets the resources in the pod status,
// because the fake kubelet does not.
func resize(t *testing.T, c *kubevirttest.Cluster, pod *corev1.Pod, limits corev1.ResourceList) {
	t.Helper()
	setResourcesInStatus(t, c, pod)
	for name, limit := range limits {
		pod.Spec.Containers[0].Resources.Limits[name] = limit
	}
	if err := c.Client.SubResource("resize").Update(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	setResourcesInStatus(t, c, pod)
}

func setResourcesInStatus(t *testing.T, c *kubevirttest.Cluster, pod *corev1.Pod) {
	t.Helper()
	eventually(t, "the status to be written", func() error { // other writers may conflict
		if err := c.Client.Get(t.Context(), client.ObjectKeyFromObject(pod), pod); err != nil {
			return err
		}
		for i, container := range pod.Spec.Containers {
			status := &pod.Status.ContainerStatuses[i]
			status.Resources, status.AllocatedResources = container.Resources.DeepCopy(),
				container.Resources.Requests
		}
		return c.Client.Status().Update(t.Context(), pod)
	})
}

// testMigratedSize resizes a VM in place and expects the same size after two migrations.
func testMigratedSize(t *testing.T, c *kubevirttest.Cluster) {
	object, source := launch(t, c, c.Namespace(t, nil),
		annotate(api.InjectSidecarKey, "follow-limits"), limited)
	c.AwaitRunning(t, object)
	rendered := source.Spec.Containers[0].Resources
	resize(t, c, source, list("cpu", "4", "memory", "6Gi"))
	mooringResize(t, c, source, api.VCPUsKey, "4")
	want := rendered.DeepCopy()
	want.Limits[corev1.ResourceCPU], want.Limits[corev1.ResourceMemory] = resource.MustParse("4"),
		resource.MustParse("6Gi")
	for range 2 {
		target := migrate(t, c, object)
		if got := target.Spec.Containers[0].Resources; !equality.Semantic.DeepEqual(got.Limits,
			want.Limits) || !equality.Semantic.DeepEqual(got.Requests, want.Requests) {
			t.Errorf("the target has %+v, want %+v; it was rendered as %+v", got, want, rendered)
		}
		if diff := cmp.Diff(source.Annotations[api.RenderedKey],
			target.Annotations[api.RenderedKey]); diff != "" {
			t.Errorf("rendered size: %s", diff)
		}
		if target.Annotations[api.VCPUsKey] != "4" {
			t.Errorf("annotations %v", webhookAnnotations(target))
		}
		c.AwaitRunning(t, object)
	}
}

// mooringResize writes the annotation like `mooring resize`.
func mooringResize(t *testing.T, c *kubevirttest.Cluster, pod *corev1.Pod, key, value string) {
	t.Helper()
	change(t, c, pod, func() { pod.Annotations[key] = value })
}

// testTwoLaunchers refuses the target of a resized VM with two launchers, because the running one
// is unknown. virt-controller makes no such target, so the test asks the API server.
func testTwoLaunchers(t *testing.T, c *kubevirttest.Cluster) {
	object, source := launch(t, c, c.Namespace(t, nil), annotate(api.VCPUsKey, "2"), limited)
	c.AwaitRunning(t, object)
	target, other := copyOf(source), copyOf(source)
	target.Labels[virtv1.MigrationJobLabel] = "migration"
	if err := c.Client.Create(t.Context(), target.DeepCopy(), client.DryRunAll); err != nil {
		t.Errorf("of one launcher: %v", err)
	}
	other.Name, other.Spec.NodeName = "left-over", object.Status.NodeName
	if err := c.Client.Create(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	eventually(t, "KubeVirt to list both", func() error {
		err := c.Client.Create(t.Context(), target.DeepCopy(), client.DryRunAll)
		return checkRefusal(err, "launchers.mooring.dev", "has 2 launchers: left-over, "+
			source.Name)
	})
}

// copyOf returns a new launcher like the given one.
func copyOf(pod *corev1.Pod) *corev1.Pod {
	other := pod.DeepCopy()
	other.ObjectMeta = metav1.ObjectMeta{
		Namespace: pod.Namespace, GenerateName: "copy-", Labels: maps.Clone(pod.Labels),
		Annotations: maps.Clone(pod.Annotations), OwnerReferences: pod.OwnerReferences,
	}
	other.Spec.NodeName = ""
	return other
}
