package quota

import (
	"encoding/json"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	virtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/hack/kubevirt"
	"github.com/mooring-vm/mooring/integration/bench/stats"
	kubevirttest "github.com/mooring-vm/mooring/integration/kubevirt"
	"github.com/mooring-vm/mooring/quota/webhook/launcher"
)

// BenchmarkLauncherWebhook measures the webhook's time for a migration target. All reads go
// uncached to a real API server.
func BenchmarkLauncherWebhook(b *testing.B) {
	c := kubevirttest.Start(b)
	kv := &virtv1.KubeVirt{ObjectMeta: metav1.ObjectMeta{Namespace: kubevirt.Namespace,
		Name: kubevirt.Name}}
	version := client.RawPatch(types.MergePatchType,
		[]byte(`{"status": {"observedKubeVirtVersion": "v1.7.0"}}`))
	if err := c.Client.Status().Patch(b.Context(), kv, version); err != nil {
		b.Fatal(err)
	}
	object := c.RunningVMI(b, c.Namespace(b, nil), "vm", small())
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Labels: map[string]string{virtv1.AppLabel: "virt-launcher",
				virtv1.CreatedByLabel: string(object.UID), virtv1.MigrationJobLabel: "migration"},
			Annotations: map[string]string{api.RequiresLockKey: "true"},
			OwnerReferences: []metav1.OwnerReference{
				*metav1.NewControllerRef(object, virtv1.VirtualMachineInstanceGroupVersionKind)},
		},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "compute"}}},
	}
	raw, err := json.Marshal(pod)
	if err != nil {
		b.Fatal(err)
	}
	req := admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
		Namespace: object.Namespace, Object: runtime.RawExtension{Raw: raw}}}
	h := launcher.New(launcher.Config{Reader: c.Client})
	var took []float64 // microseconds
	for b.Loop() {
		start := time.Now()
		if resp := h.Handle(b.Context(), req); !resp.Allowed || len(resp.Patches) == 0 {
			b.Fatalf("got %+v", resp)
		}
		took = append(took, float64(time.Since(start).Nanoseconds())/1e3)
	}
	all := stats.Summarise(took)
	b.ReportMetric(all.Median, "p50-µs")
	b.ReportMetric(all.P99, "p99-µs")
}
