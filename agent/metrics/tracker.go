package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/mooring-vm/mooring/api/agentapi"
)

// trackerCollector asks the tracker at each scrape. What it counts outlives the
// agent, so the counters cannot be the agent's own.
type trackerCollector struct {
	tracker func() agentapi.Tracker
	up      *prometheus.Desc
	figures []figure
}

// figure is one that only a tracker that works has.
type figure struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
	of   func(agentapi.Tracker) float64
}

func newTrackerCollector(state State) *trackerCollector {
	gauged := func(name, help string, of func(agentapi.Tracker) float64) figure {
		return figure{describe(name, help), prometheus.GaugeValue, of}
	}
	counted := func(name, help string, of func(agentapi.Tracker) float64) figure {
		return figure{describe(name, help), prometheus.CounterValue, of}
	}
	return &trackerCollector{
		tracker: state.Tracker,
		up:      describe("tracker_up", "1 while processes are followed inside the kernel, 0 otherwise."),
		figures: []figure{
			gauged("tracker_processes", "Processes that are followed.",
				func(t agentapi.Tracker) float64 { return float64(t.Processes) }),
			gauged("tracker_max_processes", "How many processes can be followed.",
				func(t agentapi.Tracker) float64 { return float64(t.MaxProcesses) }),
			gauged("tracker_groups", "Cgroups that are registered.",
				func(t agentapi.Tracker) float64 { return float64(t.Groups) }),
			gauged("tracker_max_groups", "How many cgroups can be registered.",
				func(t agentapi.Tracker) float64 { return float64(t.MaxGroups) }),
			counted("tracker_events_lost_total", "Events that the kernel had no room for.",
				func(t agentapi.Tracker) float64 { return float64(t.LostEvents) }),
			counted("tracker_map_full_total", "Processes that the kernel had no room for.",
				func(t agentapi.Tracker) float64 { return float64(t.LostProcesses) }),
			counted("tracker_stale_processes_total", "Processes whose end was missed, found when their number came again.",
				func(t agentapi.Tracker) float64 { return float64(t.Stale) }),
			counted("tracker_calls_left_out_total", "Calls of the tracker's programs that the kernel left out.",
				func(t agentapi.Tracker) float64 { return float64(t.Skipped) }),
		},
	}
}

// Describe implements prometheus.Collector.
func (c *trackerCollector) Describe(descs chan<- *prometheus.Desc) {
	descs <- c.up
	for _, f := range c.figures {
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
	for _, f := range c.figures {
		metrics <- prometheus.MustNewConstMetric(f.desc, f.kind, f.of(t))
	}
}
