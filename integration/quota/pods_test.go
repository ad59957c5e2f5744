package quota

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	virtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mooring-vm/mooring/api/v1alpha1"
	kubevirttest "github.com/mooring-vm/mooring/integration/kubevirt"
)

// testLimitRange has a LimitRange add limits to the launcher's containers and sidecars. KubeVirt
// does not know them.
func testLimitRange(t *testing.T, c *kubevirttest.Cluster) {
	ns := c.Namespace(t, list("limits.cpu", "99", "limits.memory", "99Gi", "requests.memory",
		"99Gi", "requests.cpu", "99"))
	limits := &corev1.LimitRange{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "defaults"}}
	limits.Spec.Limits = []corev1.LimitRangeItem{{
		Type: corev1.LimitTypeContainer, Default: list("cpu", "2", "memory", "3Gi"),
		DefaultRequest: list("cpu", "50m", "memory", "64Mi"),
	}}
	if err := c.Client.Create(t.Context(), limits); err != nil {
		t.Fatal(err)
	}
	vmi := c.RunningVMI(t, ns, "vm", small())
	launcher := c.Launchers(t, vmi)[0]
	containers := len(launcher.Spec.Containers) + len(launcher.Spec.InitContainers)
	if containers < 2 {
		t.Errorf("the launcher has %d containers: want one with a sidecar", containers)
	}
	full := c.Used(t, ns)
	c.SetHard(t, ns, full)
	m := c.MigrateUntil(t, vmi, virtv1.MigrationPreparingTarget)
	m.Await(t, virtv1.MigrationPreparingTarget)
	r := awaitPhase(t, c, ns, v1alpha1.PhaseCharged)
	awaitHard(t, c, ns, kubevirttest.QuotaName, times(full, 2))
	if got := r.Spec.Pods[0].Charge[corev1.ResourceLimitsMemory]; got.Cmp(
		full[corev1.ResourceLimitsMemory]) != 0 {
		t.Errorf("reserved %s of limits.memory, want one launcher's charge", &got)
	}
	m.GoOn(t)
	awaitClean(t, c, ns, kubevirttest.QuotaName, full)
}

// testResizedInPlace resizes a source pod. Kubernetes charges the new size, and the controller
// reserves it until it observes the target pod.
func testResizedInPlace(t *testing.T, c *kubevirttest.Cluster) {
	ns := c.Namespace(t, list("requests.memory", "8Gi", "pods", "1"))
	vmi := c.RunningVMI(t, ns, "vm", small())
	before := c.Used(t, ns)[corev1.ResourceRequestsMemory]
	larger := before.DeepCopy()
	larger.Add(resource.MustParse("1Gi"))
	resizeCompute(t, c, c.Launchers(t, vmi)[0])
	eventually(t, "the resize to be charged", func() error {
		if used := c.Used(t, ns)[corev1.ResourceRequestsMemory]; used.Cmp(larger) != 0 {
			return fmt.Errorf("%s are used, want %s", &used, &larger)
		}
		return nil
	})
	full := list("requests.memory", larger.String(), "pods", "1")
	c.SetHard(t, ns, full)
	m := c.MigrateUntil(t, vmi, virtv1.MigrationPreparingTarget)
	m.Await(t, virtv1.MigrationPreparingTarget)
	awaitPhase(t, c, ns, v1alpha1.PhaseCharged)
	m.GoOn(t)
	awaitClean(t, c, ns, kubevirttest.QuotaName, full)
}

// resizeCompute adds 1Gi to the launcher's compute container by the resize subresource.
func resizeCompute(t *testing.T, c *kubevirttest.Cluster, pod corev1.Pod) {
	t.Helper()
	at := slices.IndexFunc(pod.Spec.Containers, func(o corev1.Container) bool {
		return o.Name == "compute"
	})
	resources := pod.Spec.Containers[at].Resources.DeepCopy()
	for _, l := range []corev1.ResourceList{resources.Requests, resources.Limits} {
		if memory, has := l[corev1.ResourceMemory]; has {
			memory.Add(resource.MustParse("1Gi"))
			l[corev1.ResourceMemory] = memory
		}
	}
	patch, err := json.Marshal(
		map[string]any{
			"spec": map[string]any{
				"containers": []any{map[string]any{"name": "compute", "resources": resources}}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Client.SubResource("resize").Patch(t.Context(), &pod,
		client.RawPatch(types.StrategicMergePatchType, patch)); err != nil {
		t.Fatalf("resizing the launcher: %v", err)
	}
}
