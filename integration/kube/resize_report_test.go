package kubetest

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	agentkube "github.com/mooring-vm/mooring/agent/kube"
	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/api/podapi"
)

// TestResizeReportOfASeries writes the largest report. The API server accepts it, also as an update
// of a counted Event.
func TestResizeReportOfASeries(t *testing.T) {
	plane := Start(t)
	admin := clientFor(t, plane.Config())
	namespace := Namespace(t, admin)
	r := startRecorder(t, agentClients(t, agentConfig(t, plane)), node)
	large := report(podapi.MaxLines, podapi.StateRefused, 4)
	for range podapi.MaxLines {
		large.Notes = append(large.Notes, strings.Repeat("<", podapi.MaxLine))
	}
	large = large.FitInto(agentapi.MaxEventReport)
	for _, report := range []podapi.Report{report(2, podapi.StateRefused, 4), large,
		report(3, podapi.StateRefused, 4)} {
		event := refusal(namespace, "vm", "no room")
		event.Reason, event.Desired, event.Report = agentapi.ReasonResizeFailed,
			&agentapi.DesiredSize{Generation: 7}, &report
		r.Record(event)
	}
	r.stop()
	r.want(t, outcomes{agentkube.Written: 1, agentkube.Merged: 2})

	got := listEvents(t, admin, namespace)
	if len(got) != 1 || got[0].Series == nil || got[0].Series.Count != 3 {
		t.Fatalf("got %v, want one Event that was counted", got)
	}
	latest, err := json.Marshal(report(3, podapi.StateRefused, 4))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"wanted.event.mooring.dev": `{"generation":7}`,
		"report.event.mooring.dev": string(latest)}
	if diff := cmp.Diff(want, got[0].Annotations); diff != "" {
		t.Errorf("annotations (-want +got):\n%s", diff)
	}
}
