package fencing

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/mooring-vm/mooring/api"
)

func request(t *testing.T, pod any) admission.Request {
	t.Helper()
	raw, err := json.Marshal(pod)
	if err != nil {
		t.Fatal(err)
	}
	return admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{Namespace: "vms",
		Object: runtime.RawExtension{Raw: raw}}}
}

func TestWebhook(t *testing.T) {
	for name, tt := range map[string]struct {
		before metav1.ObjectMeta
		want   map[string]any // values of the patches by path
	}{
		"a new pod": {metav1.ObjectMeta{}, map[string]any{
			"/metadata/labels":     map[string]any{api.FencingLabel: "true"},
			"/metadata/finalizers": []any{api.PodFinalizer}}},
		"other labels and finalizers": {metav1.ObjectMeta{Labels: map[string]string{"a": "b"},
			Finalizers: []string{"example.com/a"}}, map[string]any{
			"/metadata/labels/" + api.FencingLabel: "true",
			"/metadata/finalizers/1":               api.PodFinalizer}},
		"a protected pod": {metav1.ObjectMeta{Labels: map[string]string{api.FencingLabel: "true"},
			Finalizers: []string{api.PodFinalizer}}, map[string]any{}},
	} {
		t.Run(name, func(t *testing.T) {
			got := map[string]any{}
			resp := NewWebhook(nil).Handle(t.Context(), request(t, &corev1.Pod{ObjectMeta: tt.before}))
			for _, p := range resp.Patches {
				got[p.Path] = p.Value
			}
			// The patch is the difference to the pod as this program writes it.
			if diff := cmp.Diff(tt.want, got); diff != "" || !resp.Allowed {
				t.Errorf("allowed: %t, patches (-want +got):\n%s", resp.Allowed, diff)
			}
		})
	}
}

func TestWebhookRefusesNonsense(t *testing.T) {
	if resp := NewWebhook(nil).Handle(t.Context(), request(t, "no pod")); resp.Allowed {
		t.Errorf("%+v", resp)
	}
}

// In mode observe the webhook reports the change.
func TestWebhookObserves(t *testing.T) {
	var reported string
	h := NewWebhook(func(_ admission.Request, pod *corev1.Pod, change string) admission.Response {
		reported = pod.Namespace + ": " + change
		return admission.Allowed("")
	})
	resp := h.Handle(t.Context(), request(t, &corev1.Pod{}))
	if len(resp.Patches) > 0 || reported != "vms: add the finalizer mooring.dev/vm" {
		t.Errorf("patches %v, report %q", resp.Patches, reported)
	}
}
