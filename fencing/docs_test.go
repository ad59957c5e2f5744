package fencing

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/mooring-vm/mooring/api"
)

func page(t *testing.T, path ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(append([]string{"..", "docs"}, path...)...))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestDocumented: the how-to has each reason, and the reference has metrics and Events.
func TestDocumented(t *testing.T) {
	howTo := page(t, "how-to", "fencing.md")
	reasons := append(Reasons(), NeverBound, NeverStarted, VMEnded, NodeOutOfService, NodeFenced)
	for _, reason := range reasons {
		if !strings.Contains(howTo, "\n| `"+string(reason)+"` |") {
			t.Errorf("no row of %s", reason)
		}
	}
	for _, name := range []string{api.PodFinalizer, api.FencingLabel + "=true"} {
		if !strings.Contains(howTo, "`"+name+"`") {
			t.Errorf("the how-to lacks %s", name)
		}
	}
	for _, reason := range []string{ReasonWaits, ReasonReleased} {
		if !strings.Contains(page(t, "reference", "events.md"), "| `"+reason+"` | Pod |") {
			t.Errorf("no row of the Event %s", reason)
		}
	}
	registry := prometheus.NewRegistry()
	NewMetrics(registry)
	served, err := registry.Gather()
	if err != nil || len(served) == 0 {
		t.Fatal(err)
	}
	for _, m := range served {
		row := "| `" + m.GetName() + "` | " + strings.ToLower(m.GetType().String()) + " | `reason` |"
		if !strings.Contains(page(t, "reference", "metrics.md"), row) {
			t.Errorf("no row %s", row)
		}
	}
}
