package agent

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/bpf"
)

// Each kind of loss has a field of its own.
func TestTrackerFromStats(t *testing.T) {
	got := trackerFromStats(&bpf.Stats{
		Processes: 1, MaxProcesses: 2, Groups: 3, MaxGroups: 4, LostEvents: 5, LostProcesses: 6,
		Stale: 7, SkippedCalls: 8,
	})
	want := agentapi.Tracker{
		Available: true, Processes: 1, MaxProcesses: 2, Groups: 3, MaxGroups: 4, LostEvents: 5,
		LostProcesses: 6, Stale: 7, Skipped: 8,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}
