package launcher

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/quota/webhook/observe"
)

// observing returns the configuration in mode observe, and its Events.
func observing(c Config) (Config, *events.FakeRecorder) {
	recorder := events.NewFakeRecorder(10)
	c.Observe = observe.New(recorder, prometheus.NewPedanticRegistry())
	return c, recorder
}

// In mode observe the pod passes unchanged, and the report lists each change of mode enforce.
func TestHandleObserves(t *testing.T) {
	vmi := newVMI(withGPUs(1))
	enforce := Config{Reader: reader(t, interceptor.Funcs{}, vmi),
		Shim: Shim{Image: "registry.example.org/mooring-shim:v1"}}
	c, recorder := observing(enforce)
	req := request(t, newPod(map[string]string{api.InjectSidecarKey: "true"}))
	resp := New(c).Handle(t.Context(), req)
	if !resp.Allowed || len(resp.Patches) > 0 {
		t.Fatalf("got %+v", resp.AdmissionResponse)
	}
	event := <-recorder.Events
	for _, part := range []string{observe.ReasonWouldChange, "observe mode, nothing is done: would",
		api.LauncherKey + "=compute", "mooring-shim"} {
		if !strings.Contains(event, part) {
			t.Errorf("Event %q: want %q in it", event, part)
		}
	}
	enforced := New(enforce).Handle(t.Context(), req)
	for _, p := range enforced.Patches {
		field := p.Operation + " " + strings.ReplaceAll(strings.TrimPrefix(p.Path, "/"), "~1", "/")
		if !strings.Contains(event, field) {
			t.Errorf("Event %q: want %q in it", event, field)
		}
	}
	if len(resp.Warnings) != 1 || !strings.Contains(event, strings.TrimPrefix(resp.Warnings[0],
		"mooring: ")) {
		t.Errorf("warnings %q, Event %q", resp.Warnings, event)
	}

	req.DryRun = new(true)
	if resp := New(c).Handle(t.Context(), req); len(resp.Warnings) != 1 {
		t.Errorf("warnings of a dry run: %q", resp.Warnings)
	}
	if len(recorder.Events) > 0 {
		t.Errorf("a dry run wrote an Event: %s", <-recorder.Events)
	}
}

// In mode observe a refused pod passes, and the report has the reason.
func TestHandleObservesRefusal(t *testing.T) {
	resized := newSource(resizedTo(resources("400m", "4Gi", "4", "5Gi")))
	c, recorder := observing(Config{Reader: failing[*unstructured.Unstructured,
		*unstructured.UnstructuredList](t, newVMI(), &resized)})
	pod := newTarget(nil)
	enforced := New(Config{Reader: c.Reader}).Handle(t.Context(), request(t, pod))
	if enforced.Allowed {
		t.Fatalf("mode enforce lets it pass: %+v", enforced.AdmissionResponse)
	}
	resp := New(c).Handle(t.Context(), request(t, pod))
	if !resp.Allowed || len(resp.Warnings) != 1 ||
		!strings.Contains(resp.Warnings[0], enforced.Result.Message) {
		t.Errorf("got %+v, want a warning with %q", resp.AdmissionResponse, enforced.Result.Message)
	}
	if event := <-recorder.Events; !strings.HasPrefix(event, corev1.EventTypeWarning+" "+
		observe.ReasonWouldRefuse) {
		t.Errorf("Event %q", event)
	}
}
