package guard_test

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/mooring-vm/mooring/quota/webhook/guard"
	"github.com/mooring-vm/mooring/quota/webhook/observe"
)

// In mode observe every refusal of mode enforce passes, with a warning and an Event that have the
// same reason.
func TestObserve(t *testing.T) {
	w := newWorld(t, namespace(), raised(), reservation(), kubevirtObject())
	recorder := events.NewFakeRecorder(10)
	observing := w.guard
	observing.Observe = observe.New(recorder, prometheus.NewPedanticRegistry())
	pod := made("9Gi", "")
	type handler = func(guard.Config) admission.Handler
	for name, c := range map[string]struct {
		of      handler
		request admission.Request
	}{
		"quota": {guard.NewQuota, ask(t, admissionv1.Delete, raised(), nil)},
		"share": {guard.NewNamespace, ask(t, admissionv1.Update, namespace(),
			namespace(shareKey, `{"limitsCpuPercent":50}`))},
		"VM":       {guard.NewVM, ask(t, admissionv1.Create, nil, vm(always, "64Gi"))},
		"launcher": {guard.NewLauncher, ask(t, admissionv1.Create, nil, pod)},
	} {
		t.Run(name, func(t *testing.T) {
			c.request.Namespace = "vms"
			enforced := c.of(w.guard).Handle(t.Context(), c.request)
			if enforced.Allowed {
				t.Fatalf("mode enforce lets it pass: %q", enforced.Warnings)
			}
			why := enforced.Result.Message
			got := c.of(observing).Handle(t.Context(), c.request)
			if !got.Allowed || len(got.Warnings) != 1 ||
				got.Warnings[0] != "mooring: observe mode, nothing is done: would refuse: "+why {
				t.Errorf("allowed %t, warnings %q, want %q", got.Allowed, got.Warnings, why)
			}
			if event := <-recorder.Events; event != corev1.EventTypeWarning+" "+
				observe.ReasonWouldRefuse+" "+strings.TrimPrefix(got.Warnings[0], "mooring: ") {
				t.Errorf("Event %q", event)
			}
		})
	}
}

// A request that mode enforce lets pass has no report.
func TestObservePass(t *testing.T) {
	w := newWorld(t, namespace(), quiet(), kubevirtObject())
	recorder := events.NewFakeRecorder(10)
	w.guard.Observe = observe.New(recorder, prometheus.NewPedanticRegistry())
	want(t, guard.NewVM(w.guard).Handle(t.Context(),
		ask(t, admissionv1.Create, nil, vm(always, "1Gi"))))
	if len(recorder.Events) > 0 {
		t.Errorf("Event %q", <-recorder.Events)
	}
}
