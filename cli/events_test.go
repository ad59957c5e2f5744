package cli

import (
	"bytes"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const eventsPath = "/apis/events.k8s.io/v1/events"

// clusterEvent returns an Event about pod vms/vm-1. The reason is also its name and UID.
func clusterEvent(reporter, reason string) eventsv1.Event {
	return eventsv1.Event{
		TypeMeta:            metav1.TypeMeta{APIVersion: "events.k8s.io/v1", Kind: "Event"},
		ObjectMeta:          inVMs(reason),
		EventTime:           metav1.NewMicroTime(now),
		ReportingController: reporter,
		Reason:              reason,
		Type:                corev1.EventTypeWarning,
		Regarding:           corev1.ObjectReference{Kind: "Pod", Namespace: "vms", Name: "vm-1"},
	}
}

func eventList(version string, items ...eventsv1.Event) eventsv1.EventList {
	return eventsv1.EventList{
		TypeMeta: metav1.TypeMeta{APIVersion: "events.k8s.io/v1", Kind: "EventList"},
		ListMeta: metav1.ListMeta{ResourceVersion: version}, Items: items}
}

// TestEventsOfAllReporters expects the Events of each part of Mooring, under the names on the wire.
// A warning that the agent repeats on a VirtualMachineInstance appears once.
func TestEventsOfAllReporters(t *testing.T) {
	repeated := clusterEvent("mooring.dev/agent", "MemlockRefused")
	repeated.Name, repeated.UID = "copy", "copy"
	repeated.Related = &repeated.Regarding
	serveCluster(t, map[string]any{eventsPath: eventList("7",
		clusterEvent("mooring.dev/agent", "MemlockRefused"), repeated,
		clusterEvent("mooring-quota", "WouldScaleQuota"),
		clusterEvent("mooring-webhooks", "LauncherWarning"),
		clusterEvent("mooring-quota-of-others", "Alien"),
		clusterEvent("kubelet", "Killing"))})
	var out, errOut bytes.Buffer
	program := testProgram(&out, &errOut)
	program.Name = "kubectl-mooring"
	if code := program.Run(t.Context(), []string{"events", "-A"}); code != ExitOK {
		t.Errorf("exit code %d: %s", code, errOut.String())
	}
	for _, reason := range []string{"MemlockRefused", "WouldScaleQuota", "LauncherWarning"} {
		if strings.Count(out.String(), reason) != 1 {
			t.Errorf("output lacks %s:\n%s", reason, out.String())
		}
	}
	if strings.Contains(out.String(), "Alien") || strings.Contains(out.String(), "Killing") {
		t.Errorf("Events of other programs:\n%s", out.String())
	}
}
