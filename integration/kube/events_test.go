package kubetest

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/google/go-cmp/cmp"

	agentkube "github.com/mooring-vm/mooring/agent/kube"
	"github.com/mooring-vm/mooring/api/agentapi"
)

// withoutTime returns an Event without time and generated name, for comparison.
func withoutTime(e eventsv1.Event) eventsv1.Event {
	e.TypeMeta, e.EventTime = metav1.TypeMeta{}, metav1.MicroTime{}
	e.ObjectMeta = metav1.ObjectMeta{Namespace: e.Namespace}
	return e
}

func ofAgent(node string, e eventsv1.Event) eventsv1.Event {
	e.ReportingController = "mooring.dev/agent"
	e.ReportingInstance = "mooring-agent-" + node
	e.Action = "EnforceLauncherLimits"
	return e
}

func TestEventOfALauncher(t *testing.T) {
	plane := Start(t)
	admin := clientFor(t, plane.Config())
	namespace := Namespace(t, admin)
	r := startRecorder(t, agentClients(t, agentConfig(t, plane)), node)
	event := refusal(namespace, "vm", "value.memlock.mooring.dev: 8Gi: rule \"tenants\" allows 4Gi")
	r.Record(event)
	r.stop()
	r.want(t, outcomes{agentkube.Written: 1})

	got := listEvents(t, admin, namespace)
	if len(got) != 1 {
		t.Fatalf("%d Events, want 1", len(got))
	}
	want := ofAgent(node, eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace},
		Type:       corev1.EventTypeWarning,
		Reason:     "MemlockRefused",
		Note:       event.Message,
		Regarding: corev1.ObjectReference{
			Kind: "Pod", APIVersion: "v1", Namespace: namespace, Name: "vm", UID: "uid-of-vm",
			FieldPath: "spec.containers{compute}",
		},
	})
	if diff := cmp.Diff(want, withoutTime(got[0])); diff != "" {
		t.Errorf("Event (-want +got):\n%s", diff)
	}
	if at := got[0].EventTime.Time; at.Sub(event.Time).Abs() >= 1e3 { // stored in microseconds
		t.Errorf("Event of %s, want %s", at, event.Time)
	}
}

// TestKubectlFindsTheEvent lists Events like `kubectl describe pod`: by pod, in the core/v1 API.
func TestKubectlFindsTheEvent(t *testing.T) {
	plane := Start(t)
	admin := clientFor(t, plane.Config())
	namespace := Namespace(t, admin)
	r := startRecorder(t, agentClients(t, agentConfig(t, plane)), node)
	r.Record(refusal(namespace, "vm", "too much"))
	r.Record(refusal(namespace, "another", "too much, too"))
	r.stop()

	events := admin.CoreV1().Events(namespace)
	name, kind, uid := "vm", "Pod", "uid-of-vm"
	found, err := events.List(t.Context(), metav1.ListOptions{
		FieldSelector: events.GetFieldSelector(&name, &namespace, &kind, &uid).String(),
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(found.Items) != 1 || found.Items[0].Message != "too much" {
		t.Errorf("found %v, want the one of the pod", found.Items)
	}
}

func TestEventOfTheNode(t *testing.T) {
	plane := Start(t)
	admin := clientFor(t, plane.Config())
	name := Namespace(t, admin) // a unique name for the node
	r := startRecorder(t, agentClients(t, agentConfig(t, plane)), name)
	event := refusal("", "", "about the node")
	event.Pod, event.Container = agentapi.PodRef{}, agentapi.ContainerRef{}
	r.Record(event)
	r.stop()
	r.want(t, outcomes{agentkube.Written: 1})

	found, err := admin.EventsV1().Events(metav1.NamespaceDefault).List(t.Context(),
		metav1.ListOptions{FieldSelector: "regarding.name=" + name})
	if err != nil {
		t.Fatal(err)
	}
	if len(found.Items) != 1 {
		t.Fatalf("%d Events, want 1", len(found.Items))
	}
	want := corev1.ObjectReference{Kind: "Node", APIVersion: "v1", Name: name, UID: types.UID(name)}
	if diff := cmp.Diff(want, found.Items[0].Regarding); diff != "" {
		t.Errorf("regarding (-want +got):\n%s", diff)
	}
}

// TestTheLongestEventIsAccepted records an Event with all fields at their maximum length. The API
// server refuses longer fields.
func TestTheLongestEventIsAccepted(t *testing.T) {
	plane := Start(t)
	admin := clientFor(t, plane.Config())
	namespace := Namespace(t, admin)
	longest := strings.Repeat("n", 253)
	r := startRecorder(t, agentClients(t, agentConfig(t, plane)), longest)
	event := refusal(namespace, longest, strings.Repeat("ü", 4000))
	event.Container.Name = strings.Repeat("c", 63)
	r.Record(event)
	r.stop()
	r.want(t, outcomes{agentkube.Written: 1})

	got := listEvents(t, admin, namespace)
	if len(got) != 1 || got[0].Regarding.Name != longest || !strings.HasPrefix(got[0].Note, "üüü") {
		t.Errorf("got %v", got)
	}
}

func TestEqualEventsBecomeASeries(t *testing.T) {
	plane := Start(t)
	admin := clientFor(t, plane.Config())
	namespace := Namespace(t, admin)
	r := startRecorder(t, agentClients(t, agentConfig(t, plane)), node)
	for range 5 {
		r.Record(refusal(namespace, "vm", "too much"))
	}
	r.Record(refusal(namespace, "vm", "still too much"))
	r.stop()
	r.want(t, outcomes{agentkube.Written: 2, agentkube.Merged: 4})

	counts := map[string]int32{}
	for _, e := range listEvents(t, admin, namespace) {
		counts[e.Note]++
		if e.Series != nil {
			counts[e.Note] = e.Series.Count
		}
	}
	if diff := cmp.Diff(map[string]int32{"too much": 5, "still too much": 1}, counts); diff != "" {
		t.Errorf("counts by note (-want +got):\n%s", diff)
	}
}

// TestADeletedEventStartsAnew deletes an Event, as the API server does after an hour. The next one
// counts from 1.
func TestADeletedEventStartsAnew(t *testing.T) {
	plane := Start(t)
	admin := clientFor(t, plane.Config())
	namespace := Namespace(t, admin)
	r := startRecorder(t, agentClients(t, agentConfig(t, plane)), node)
	r.Record(refusal(namespace, "vm", "too much"))
	r.await(t, agentkube.Written, 1)
	err := admin.EventsV1().Events(namespace).DeleteCollection(t.Context(), metav1.DeleteOptions{},
		metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	r.Record(refusal(namespace, "vm", "too much"))
	r.await(t, agentkube.Merged, 1)
	r.Record(refusal(namespace, "vm", "too much"))
	r.stop()
	r.want(t, outcomes{agentkube.Written: 2, agentkube.Merged: 1})
	if got := listEvents(t, admin, namespace); len(got) != 1 || got[0].Series != nil {
		t.Errorf("got %v, want a count of 1", got)
	}
}
