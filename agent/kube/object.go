package kube

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record/util"

	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/internal/plaintext"
)

const (
	action = "EnforceLauncherLimits"

	// The API server refuses a longer one.
	maxInstance = 128
)

// eventObject renders event as Kubernetes stores it. An event without a pod is about the node.
// stamp makes the name unique among those of the pod.
func eventObject(event agentapi.Event, node string, stamp int64) *eventsv1.Event {
	regarding := reference(event, node)
	namespace := regarding.Namespace
	if namespace == "" {
		namespace = metav1.NamespaceDefault
	}
	return &eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{
			Name:        util.GenerateEventName(regarding.Name, stamp),
			Namespace:   namespace,
			Annotations: annotations(event),
		},
		EventTime:           metav1.NewMicroTime(event.Time),
		ReportingController: agentapi.AgentReporter,
		ReportingInstance:   truncate("mooring-agent-"+node, maxInstance),
		Action:              action,
		Reason:              string(event.Reason),
		Regarding:           regarding,
		Note:                truncate(event.Message, plaintext.MaxNote),
		Type:                string(event.Type),
	}
}

// annotations returns the annotations for programs; nil: none.
func annotations(event agentapi.Event) map[string]string {
	if event.Desired == nil {
		return reportAnnotation(event)
	}
	all := map[string]string{}
	if text, err := json.Marshal(event.Desired); err == nil { // numbers and strings: cannot fail
		all[agentapi.DesiredKey] = string(text)
	}
	maps.Copy(all, reportAnnotation(event))
	return all
}

// reportAnnotation returns the annotation with the pod's report; nil: no report, or one above the
// limit.
func reportAnnotation(event agentapi.Event) map[string]string {
	if event.Report == nil {
		return nil
	}
	text, err := json.Marshal(event.Report)
	if err != nil || len(text) > agentapi.MaxEventReport {
		return nil
	}
	return map[string]string{agentapi.ReportKey: string(text)}
}

func reference(event agentapi.Event, node string) corev1.ObjectReference {
	if event.Pod.Name == "" {
		// Kubelet's node Events use the name as the UID, and so does `kubectl describe node`.
		return corev1.ObjectReference{Kind: "Node", APIVersion: "v1", Name: node,
			UID: types.UID(node)}
	}
	ref := corev1.ObjectReference{
		Kind:       "Pod",
		APIVersion: "v1",
		Namespace:  event.Pod.Namespace,
		Name:       event.Pod.Name,
		UID:        types.UID(event.Pod.UID),
	}
	if event.Container.Name != "" {
		ref.FieldPath = fmt.Sprintf("spec.containers{%s}", event.Container.Name)
	}
	return ref
}

// truncate shortens s to at most limit bytes of valid UTF-8.
func truncate(s string, limit int) string {
	return plaintext.Cut(strings.ToValidUTF8(s, "?"), limit)
}
