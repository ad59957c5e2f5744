package guard

import (
	"context"
	"net/http"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/mooring-vm/mooring/quota"
)

// probed answers probes of the controller, see [quota.Probe], and passes other requests on.
type probed struct{ admission.Handler }

// Handle implements [admission.Handler].
func (p probed) Handle(ctx context.Context, r admission.Request) admission.Response {
	if !isProbe(r) {
		return p.Handler.Handle(ctx, r)
	}
	return admission.Response{AdmissionResponse: admissionv1.AdmissionResponse{
		Result: &metav1.Status{
			Code: http.StatusForbidden, Reason: quota.ReasonGuarded,
			Message: "this webhook guards the quotas of the namespace",
		},
	}}
}

// isProbe reports whether a request is a dry run with the label of a probe. Without a dry run the
// label has no effect.
func isProbe(r admission.Request) bool {
	if r.Operation != admissionv1.Create || r.DryRun == nil || !*r.DryRun {
		return false
	}
	pod := &metav1.PartialObjectMetadata{}
	return decode(r.Object, pod) == nil && pod.Labels[quota.ProbeLabel] == "true"
}
