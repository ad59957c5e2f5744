package agent

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mooring-vm/mooring/agent/admin"
	"github.com/mooring-vm/mooring/agent/metrics"
	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/lifecycle/gate"
)

// The agent turns each record of the start gate into one Event of the node.
func TestReportRefusals(t *testing.T) {
	a := &Agent{config: Config{Root: t.TempDir()}, logger: discard,
		metrics: metrics.New(metrics.Build{}), events: admin.NewRing(10, 10)}
	path := filepath.Join(a.config.Root, gate.RefusalsName)
	records := `{"at": 7, "domain": "vm-\u001b3", "reason": "no launcher"}` + "\nx\n"
	if err := os.WriteFile(path, []byte(records), 0o600); err != nil {
		t.Fatal(err)
	}
	events := a.events.Subscribe()
	defer events.Close()
	a.reportRefusals()
	a.reportRefusals()
	a.events.Record(agentapi.Event{Reason: "Last"})
	event, err := events.Next(t.Context())
	if err != nil || event.Reason != agentapi.ReasonWouldRefuse ||
		event.Pod != (agentapi.PodRef{}) || !strings.Contains(event.Message,
		`would refuse the start of domain "vm-\x1b3": no launcher`) {
		t.Errorf("event %+v, %v", event, err)
	}
	if event, err := events.Next(t.Context()); err != nil || event.Reason != "Last" {
		t.Errorf("a second event %+v, %v", event, err)
	}
}
