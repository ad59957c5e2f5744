package kubetest

import (
	"fmt"
	"testing"

	agentkube "github.com/mooring-vm/mooring/agent/kube"
)

func TestEventsOfAShortOutageAreKept(t *testing.T) {
	plane := Start(t)
	admin := clientFor(t, plane.Config())
	namespace := Namespace(t, admin)
	config := agentConfig(t, plane)
	l := newLink(t, config)
	r := startRecorder(t, agentClients(t, config), node)
	l.cut()
	r.Record(refusal(namespace, "vm", "too much"))
	r.Record(refusal(namespace, "vm", "still too much"))
	l.awaitRefusal(t)
	if got := r.outcomes(); len(got) > 0 {
		t.Errorf("counted %v during the outage, want none", got)
	}
	l.mend()
	r.await(t, agentkube.Written, 2)
	r.stop()
	r.want(t, outcomes{agentkube.Written: 2})
	if got := listEvents(t, admin, namespace); len(got) != 2 {
		t.Errorf("%d Events, want 2", len(got))
	}
}

// TestEventsOfALongOutageAreCounted waits until the recorder gives up an Event. More Events follow
// than its queue holds.
func TestEventsOfALongOutageAreCounted(t *testing.T) {
	if testing.Short() {
		t.Skip("left out with -short: takes the recorder's five attempts, some 15 seconds")
	}
	plane := Start(t)
	admin := clientFor(t, plane.Config())
	namespace := Namespace(t, admin)
	config := agentConfig(t, plane)
	l := newLink(t, config)
	r := startRecorder(t, agentClients(t, config), node)
	l.cut()
	recorded := 0
	for r.outcomes()[agentkube.Dropped] < 3 {
		r.Record(refusal(namespace, fmt.Sprint("vm-", recorded), "too much"))
		recorded++
	}
	r.await(t, agentkube.Failed, 1)
	l.mend()
	r.await(t, agentkube.Written, 1)
	r.stop()

	got := r.outcomes()
	if sum := got[agentkube.Written] + got[agentkube.Failed] + got[agentkube.Dropped]; sum !=
		recorded {
		t.Errorf("%d of %d events counted: %v", sum, recorded, got)
	}
	// a write interrupted by the stop may have arrived
	if n := len(listEvents(t, admin, namespace)); n < got[agentkube.Written] ||
		n > got[agentkube.Written]+got[agentkube.Failed] {
		t.Errorf("%d Events, want the %d that were counted as written", n, got[agentkube.Written])
	}
}

func TestRefusedEventsAreCounted(t *testing.T) {
	plane := Start(t)
	admin := clientFor(t, plane.Config())
	namespace := Namespace(t, admin, "nobody")
	path, err := plane.Kubeconfig(t.Context(), namespace, "nobody")
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		recorder  *recording
		namespace string
	}{
		"no such namespace": {startRecorder(t, agentClients(t, agentConfig(t, plane)), node),
			"gone"},
		"no such right": {startRecorder(t, agentClients(t, loadConfig(t, path)), node), namespace},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			tt.recorder.Record(refusal(tt.namespace, "vm", "too much"))
			tt.recorder.await(t, agentkube.Failed, 1)
			tt.recorder.stop()
			tt.recorder.want(t, outcomes{agentkube.Failed: 1})
		})
	}
}
