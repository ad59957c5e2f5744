package sysdump

import (
	"strings"
	"testing"

	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
)

// TestEvents expects the Events of all parts of Mooring, and all Events of its namespace.
func TestEvents(t *testing.T) {
	event := func(namespace, reporter, reason string) *eventsv1.Event {
		return &eventsv1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: reason},
			ReportingController: reporter, Reason: reason}
	}
	d := &Dump{Namespace: "moorings", Client: fake.NewClientset(
		event("vms", "mooring.dev/agent", "MemlockRefused"),
		event("vms", "mooring-quota", "WouldHalt"),
		event("vms", "mooring-webhooks", "LauncherWarning"),
		event("moorings", "kubelet", "BackOff"),
		event("vms", "kubelet", "Killing"))}
	text, err := d.events(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for reason, want := range map[string]bool{"MemlockRefused": true, "WouldHalt": true,
		"LauncherWarning": true, "BackOff": true, "Killing": false} {
		if got := strings.Contains(string(text), "reason: "+reason+"\n"); got != want {
			t.Errorf("%s: %v, want %v", reason, got, want)
		}
	}
}
