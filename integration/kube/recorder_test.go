package kubetest

import (
	"context"
	"log/slog"
	"maps"
	"sync"
	"testing"
	"time"

	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/google/go-cmp/cmp"

	agentkube "github.com/mooring-vm/mooring/agent/kube"
	"github.com/mooring-vm/mooring/api/agentapi"
)

type outcomes map[agentkube.Outcome]int

// recording is the agent's running recorder with a count of its outcomes.
type recording struct {
	*agentkube.Recorder
	stop func() // writes the queued Events

	mu  sync.Mutex
	got outcomes
}

func startRecorder(t *testing.T, clients agentkube.Clients, node string) *recording {
	t.Helper()
	r := &recording{got: outcomes{}}
	recorder, err := agentkube.NewRecorder(agentkube.RecorderConfig{
		Sink: agentkube.NewEventSink(clients.Events), Node: node,
		Logger: slog.New(slog.DiscardHandler), Count: r.count,
	})
	if err != nil {
		t.Fatal(err)
	}
	r.Recorder = recorder
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		recorder.Run(ctx)
	}()
	r.stop = func() {
		cancel()
		<-done
	}
	t.Cleanup(r.stop)
	return r
}

func (r *recording) count(o agentkube.Outcome) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.got[o]++
}

func (r *recording) outcomes() outcomes {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.got)
}

func (r *recording) await(t *testing.T, o agentkube.Outcome, n int) {
	t.Helper()
	eventually(t, "events that are "+string(o), func() bool { return r.outcomes()[o] >= n })
}

func (r *recording) want(t *testing.T, want outcomes) {
	t.Helper()
	if diff := cmp.Diff(want, r.outcomes()); diff != "" {
		t.Errorf("outcomes (-want +got):\n%s", diff)
	}
}

// refusal returns the agent's Event about a launcher's container.
func refusal(namespace, pod, message string) agentapi.Event {
	return agentapi.Event{
		Time:      time.Now(),
		Type:      agentapi.Warning,
		Reason:    agentapi.ReasonMemlockRefused,
		Message:   message,
		Pod:       agentapi.PodRef{Namespace: namespace, Name: pod, UID: "uid-of-" + pod},
		Container: agentapi.ContainerRef{Name: "compute"},
	}
}

func listEvents(t *testing.T, admin kubernetes.Interface, namespace string) []eventsv1.Event {
	t.Helper()
	list, err := admin.EventsV1().Events(namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return list.Items
}
