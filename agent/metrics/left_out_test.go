package metrics

import (
	"regexp"
	"strings"
	"testing"
)

// leftOut are documented metrics without a panel: details of a fault, limits of the tracker, and
// states. Alerts and the doctor name most of them.
var leftOut = []string{
	"mooring_nri_synchronizations_total", "mooring_nri_disconnects_total",
	"mooring_nri_abandoned_stubs_total", "mooring_nri_requests_total", "mooring_launchers",
	"mooring_policy_info", "mooring_launcher_phases", "mooring_hints_dropped_total",
	"mooring_tracker_max_processes", "mooring_tracker_groups", "mooring_tracker_max_groups",
	"mooring_tracker_events_lost_total", "mooring_tracker_map_full_total",
	"mooring_tracker_stale_processes_total", "mooring_tracker_calls_left_out_total",
	"mooring_guard_checks_total", "mooring_guard_checks_dropped_total",
	"mooring_kube_events_total", "mooring_quota_kubevirt_served",
}

// TestDashboardShowsMetrics: each documented metric has a panel, or is left out on purpose.
func TestDashboardShowsMetrics(t *testing.T) {
	var shown strings.Builder
	for _, p := range readDashboard(t).Panels {
		for _, target := range p.Targets {
			shown.WriteString(target.Expr + "\n")
		}
	}
	left := map[string]bool{}
	for _, name := range leftOut {
		left[name] = true
	}
	for _, row := range metricRow.FindAllStringSubmatch(readDoc(t, "metrics.md"), -1) {
		has := regexp.MustCompile(`\b` + row[1] + `(_bucket)?\b`).MatchString(shown.String())
		if has == left[row[1]] {
			t.Errorf("%s: on the dashboard %t, left out %t", row[1], has, left[row[1]])
		}
		delete(left, row[1])
	}
	for name := range left {
		t.Errorf("%s is left out, and is no documented metric", name)
	}
}
