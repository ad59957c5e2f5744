package kube

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/google/go-cmp/cmp"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/api/podapi"
)

func TestEventObject(t *testing.T) {
	at := time.Date(2026, 11, 21, 10, 0, 0, 5000, time.UTC)
	event := refusal("memlock: 8Gi asked, 4Gi allowed")
	event.Time = at
	want := &eventsv1.Event{
		ObjectMeta:          metav1.ObjectMeta{Name: "vm-1.18ea", Namespace: "vms"},
		EventTime:           metav1.NewMicroTime(at),
		ReportingController: "mooring.dev/agent",
		ReportingInstance:   "mooring-agent-node-1",
		Action:              "EnforceLauncherLimits",
		Reason:              "MemlockRefused",
		Regarding: corev1.ObjectReference{
			Kind: "Pod", APIVersion: "v1", Namespace: "vms", Name: "vm-1", UID: "uid-1",
			FieldPath: "spec.containers{compute}",
		},
		Note: "memlock: 8Gi asked, 4Gi allowed",
		Type: "Warning",
	}
	if diff := cmp.Diff(want, eventObject(event, testNode, 0x18ea)); diff != "" {
		t.Errorf("Event (-want +got):\n%s", diff)
	}
}

// Programs read the annotations instead of the message.
func TestEventObjectOfAResize(t *testing.T) {
	event := refusal("resized")
	event.Desired = &agentapi.DesiredSize{Generation: 7,
		Size: api.Size{VCPUs: 4, CPUQuota: api.CPUQuota{Percent: 150}}}
	want := map[string]string{
		"wanted.event.mooring.dev": `{"generation":7,"vcpus":4,"cpuQuota":"150%"}`}
	if diff := cmp.Diff(want, eventObject(event, testNode, 1).Annotations); diff != "" {
		t.Errorf("annotations (-want +got):\n%s", diff)
	}
	same := event
	same.Desired = &agentapi.DesiredSize{Generation: 8, Size: event.Desired.Size}
	if keyOf(event) == keyOf(same) {
		t.Error("events of two resizes become one series")
	}
}

// The pod's report is available to programs, within a limit. Another report does not end a series.
func TestEventObjectWithAReport(t *testing.T) {
	event := refusal("resized")
	event.Report = &podapi.Report{Generation: 7, State: podapi.StateResizing,
		Plan: []string{"set 4 vCPUs"}}
	want := map[string]string{
		"report.event.mooring.dev": `{"generation":7,"state":"Resizing","plan":["set 4 vCPUs"]}`}
	if diff := cmp.Diff(want, eventObject(event, testNode, 1).Annotations); diff != "" {
		t.Errorf("annotations (-want +got):\n%s", diff)
	}
	both := event
	both.Desired, both.Report = &agentapi.DesiredSize{Generation: 7},
		&podapi.Report{Generation: 7, State: podapi.StateResizing}
	want = map[string]string{"wanted.event.mooring.dev": `{"generation":7}`,
		"report.event.mooring.dev": `{"generation":7,"state":"Resizing"}`}
	if diff := cmp.Diff(want, eventObject(both, testNode, 1).Annotations); diff != "" {
		t.Errorf("both annotations (-want +got):\n%s", diff)
	}
	long := event
	long.Report = &podapi.Report{Notes: []string{strings.Repeat("n", agentapi.MaxEventReport)}}
	if got := eventObject(long, testNode, 1).Annotations; got != nil {
		t.Errorf("annotations of %d bytes", len(got["report.event.mooring.dev"]))
	}
	if keyOf(event) != keyOf(long) {
		t.Error("equal events with other reports are two series")
	}
}

func TestEventObjectWithoutAPodIsAboutTheNode(t *testing.T) {
	got := eventObject(agentapi.Event{Type: agentapi.Normal, Time: time.Now()}, testNode, 1)
	want := corev1.ObjectReference{Kind: "Node", APIVersion: "v1", Name: testNode, UID: testNode}
	if diff := cmp.Diff(want, got.Regarding); diff != "" {
		t.Errorf("regarding (-want +got):\n%s", diff)
	}
	if got.Namespace != metav1.NamespaceDefault {
		t.Errorf("namespace %q, want %q: the API server refuses others", got.Namespace,
			metav1.NamespaceDefault)
	}
}

func TestEventObjectWithoutAContainer(t *testing.T) {
	event := refusal("no container")
	event.Container = agentapi.ContainerRef{}
	if got := eventObject(event, testNode, 1).Regarding.FieldPath; got != "" {
		t.Errorf("field path %q, want none", got)
	}
}

func FuzzTruncate(f *testing.F) {
	f.Add("short", 10)
	f.Add(strings.Repeat("ä", 40), 31)
	f.Add("\xff\xfe broken", 8)
	f.Fuzz(func(t *testing.T, s string, limit int) {
		if limit < 4 || limit > 2048 {
			t.Skip("no limit that a field has")
		}
		got := truncate(s, limit)
		if len(got) > limit || !utf8.ValidString(got) {
			t.Errorf("truncate(%q, %d) = %q", s, limit, got)
		}
		if len(s) <= limit && utf8.ValidString(s) && got != s {
			t.Errorf("truncate(%q, %d) = %q, but it fits", s, limit, got)
		}
	})
}
