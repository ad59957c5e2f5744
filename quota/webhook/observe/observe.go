// Package observe reports the decisions of webhooks in mode observe. A report is a warning for the
// client, an Event and a metric. The request itself passes unchanged.
package observe

import (
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/mooring-vm/mooring/api/policy"
	"github.com/mooring-vm/mooring/internal/plaintext"
)

// Reasons of Events.
const (
	ReasonWouldRefuse = "WouldRefuse"
	ReasonWouldChange = "WouldChangePod"
)

const (
	action = "AdmitRequest"

	// maxText is the maximum length of an Event's text and of a warning in bytes.
	maxText = 1024
)

// Reporter reports decisions. Its methods may be called concurrently.
type Reporter struct {
	events  events.EventRecorder
	reports *prometheus.CounterVec
}

// New returns a reporter with registered metrics. The recorder must not block.
func New(recorder events.EventRecorder, registry prometheus.Registerer) *Reporter {
	r := &Reporter{recorder, prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "mooring_quota_webhook_observed_total",
		Help: "Requests that mode enforce would refuse or change.",
	}, []string{"reason"})}
	registry.MustRegister(r.reports)
	for _, reason := range []string{ReasonWouldRefuse, ReasonWouldChange} {
		r.reports.WithLabelValues(reason)
	}
	return r
}

// Refusal lets a request pass that mode enforce refuses. on is the object of the Event; nil: the
// object of the request.
func (r *Reporter) Refusal(
	req admission.Request, on *corev1.ObjectReference, why string,
) admission.Response {
	return r.report(req, on, corev1.EventTypeWarning, ReasonWouldRefuse, "would refuse: "+why)
}

// Change lets a pod pass unchanged that mode enforce changes.
func (r *Reporter) Change(
	req admission.Request, on *corev1.ObjectReference, what string,
) admission.Response {
	return r.report(req, on, corev1.EventTypeNormal, ReasonWouldChange, "would "+what)
}

func (r *Reporter) report(
	req admission.Request, on *corev1.ObjectReference, kind, reason, what string,
) admission.Response {
	text := plaintext.Cut(policy.Observing+what, maxText)
	if req.DryRun == nil || !*req.DryRun { // a dry run has no side effects
		if on == nil {
			on = object(req)
		}
		r.reports.WithLabelValues(reason).Inc()
		r.events.Eventf(on, nil, kind, reason, action, "%s", text)
	}
	return admission.Allowed("").WithWarnings("mooring: " + text)
}

// object returns the object of a request.
func object(req admission.Request) *corev1.ObjectReference {
	gv := metav1.GroupVersion{Group: req.Kind.Group, Version: req.Kind.Version}
	return &corev1.ObjectReference{APIVersion: gv.String(), Kind: req.Kind.Kind,
		Namespace: req.Namespace, Name: req.Name}
}

// Owner returns the controller of a pod, whose Events stay when the pod is never created; nil
// without a controller.
func Owner(pod *corev1.Pod) *corev1.ObjectReference {
	of := metav1.GetControllerOf(pod)
	if of == nil {
		return nil
	}
	return &corev1.ObjectReference{APIVersion: of.APIVersion, Kind: of.Kind,
		Namespace: pod.Namespace, Name: of.Name, UID: of.UID}
}
