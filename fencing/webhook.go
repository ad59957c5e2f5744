package fencing

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/mooring-vm/mooring/api"
)

// Report answers a request in mode observe, in place of the change.
type Report func(req admission.Request, pod *corev1.Pod, change string) admission.Response

// NewWebhook returns the handler for new launcher pods of namespaces with the label: the webhook's
// configuration selects both. It sends no request. A nil report changes the pods.
func NewWebhook(report Report) admission.Handler {
	return admission.HandlerFunc(func(_ context.Context, r admission.Request) admission.Response {
		pod := &corev1.Pod{}
		if err := json.Unmarshal(r.Object.Raw, pod); err != nil {
			return admission.Errored(http.StatusBadRequest, fmt.Errorf("read the pod: %w", err))
		}
		pod.Namespace = r.Namespace // may be empty in a new pod
		if report != nil {
			return report(r, pod, "add the finalizer "+api.PodFinalizer)
		}
		return protect(pod)
	})
}

// protect adds the finalizer and the label. It starts from the parsed pod, so fields unknown to
// this program stay unchanged.
func protect(pod *corev1.Pod) admission.Response {
	before, err := json.Marshal(pod)
	if err != nil {
		return admission.Errored(http.StatusInternalServerError, fmt.Errorf("write the pod: %w", err))
	}
	if pod.Labels == nil {
		pod.Labels = map[string]string{}
	}
	pod.Labels[api.FencingLabel] = "true"
	if !slices.Contains(pod.Finalizers, api.PodFinalizer) {
		pod.Finalizers = append(pod.Finalizers, api.PodFinalizer)
	}
	after, err := json.Marshal(pod)
	if err != nil {
		return admission.Errored(http.StatusInternalServerError, fmt.Errorf("write the pod: %w", err))
	}
	return admission.PatchResponseFromRaw(before, after)
}
