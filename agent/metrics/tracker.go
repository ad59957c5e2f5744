package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/mooring-vm/mooring/api/agentapi"
)

// trackerCollector reads the tracker's counters at each scrape. The tracker outlives the
// agent, so the counters cannot be in the agent's memory.
type trackerCollector struct {
	tracker func() agentapi.Tracker
	up      *prometheus.Desc
	metrics []trackerMetric
}

// trackerMetric is a metric of a working tracker.
type trackerMetric struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
	of   func(agentapi.Tracker) float64
}

func newTrackerCollector(state State) *trackerCollector {
	gauged := func(name, help string, of func(agentapi.Tracker) float64) trackerMetric {
		return trackerMetric{describe(name, help), prometheus.GaugeValue, of}
	}
	counted := func(name, help string, of func(agentapi.Tracker) float64) trackerMetric {
		return trackerMetric{describe(name, help), prometheus.CounterValue, of}
	}
	return &trackerCollector{
		tracker: state.Tracker,
		up:      describe("tracker_up", "1 while the kernel tracks processes, 0 otherwise."),
		metrics: []trackerMetric{
			gauged("tracker_processes", "Tracked processes.",
				func(t agentapi.Tracker) float64 { return float64(t.Processes) }),
			gauged("tracker_max_processes", "Greatest number of tracked processes.",
				func(t agentapi.Tracker) float64 { return float64(t.MaxProcesses) }),
			gauged("tracker_groups", "Registered cgroups.",
				func(t agentapi.Tracker) float64 { return float64(t.Groups) }),
			gauged("tracker_max_groups", "Greatest number of registered cgroups.",
				func(t agentapi.Tracker) float64 { return float64(t.MaxGroups) }),
			counted("tracker_events_lost_total", "Events lost because the kernel's ring was full.",
				func(t agentapi.Tracker) float64 { return float64(t.LostEvents) }),
			counted("tracker_map_full_total", "Processes not tracked because the kernel's map "+
				"was full.",
				func(t agentapi.Tracker) float64 { return float64(t.LostProcesses) }),
			counted("tracker_stale_processes_total",
				"Processes whose end was missed, found when the kernel reused their pid.",
				func(t agentapi.Tracker) float64 { return float64(t.Stale) }),
			counted("tracker_calls_left_out_total",
				"Calls of the tracker's programs that the kernel skipped.",
				func(t agentapi.Tracker) float64 { return float64(t.Skipped) }),
		},
	}
}

// Describe implements prometheus.Collector.
func (c *trackerCollector) Describe(descs chan<- *prometheus.Desc) {
	descs <- c.up
	for _, f := range c.metrics {
		descs <- f.desc
	}
}

// Collect implements prometheus.Collector.
func (c *trackerCollector) Collect(metrics chan<- prometheus.Metric) {
	var t agentapi.Tracker
	if c.tracker != nil {
		t = c.tracker()
	}
	metrics <- prometheus.MustNewConstMetric(c.up, prometheus.GaugeValue, truth(t.Available))
	if !t.Available {
		return
	}
	for _, f := range c.metrics {
		metrics <- prometheus.MustNewConstMetric(f.desc, f.kind, f.of(t))
	}
}
