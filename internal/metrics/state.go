package metrics

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/mooring-vm/mooring/api/agentapi"
)

// State is where the gauges come from. The functions are called concurrently, at
// every scrape, and must answer from memory.
type State struct {
	Launchers func() []agentapi.Launcher
	Node      func() agentapi.Node
}

// Watch adds gauges for the state of the agent and of its launchers. It must be
// called once at most.
func (m *Metrics) Watch(state State) error {
	if err := m.registry.Register(newStateCollector(state)); err != nil {
		return fmt.Errorf("register the gauges: %w", err)
	}
	return nil
}

// stateCollector asks at each scrape, so that no gauge can drift from the truth.
type stateCollector struct {
	state        State
	launchers    *prometheus.Desc
	policy       *prometheus.Desc
	synchronized *prometheus.Desc
	granted      *prometheus.Desc
	maximum      *prometheus.Desc
	unlimited    *prometheus.Desc
}

func newStateCollector(state State) *stateCollector {
	return &stateCollector{
		state:        state,
		launchers:    gauge("launchers", "Launcher containers on the node, by state.", "state"),
		policy:       gauge("policy_info", "Always 1; the label says what the node policy does.", "mode"),
		synchronized: gauge("nri_synchronized", "1 while the container runtime asks the agent about every container, 0 otherwise."),
		granted:      gauge("memlock_granted_bytes", "Lockable memory granted to launchers with a finite limit."),
		maximum:      gauge("memlock_max_bytes", "Ceiling of the policy for mooring_memlock_granted_bytes; absent without one."),
		unlimited:    gauge("memlock_unlimited_launchers", "Launchers that may lock memory without limit."),
	}
}

func gauge(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(prometheus.BuildFQName(namespace, "", name), help, labels, nil)
}

// Describe implements prometheus.Collector.
func (c *stateCollector) Describe(descs chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{c.launchers, c.policy, c.synchronized, c.granted, c.maximum, c.unlimited} {
		descs <- desc
	}
}

// Collect implements prometheus.Collector.
func (c *stateCollector) Collect(metrics chan<- prometheus.Metric) {
	set := func(desc *prometheus.Desc, value float64, labels ...string) {
		metrics <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, labels...)
	}
	for state, count := range byState(c.state.Launchers()) {
		set(c.launchers, count, string(state))
	}
	node := c.state.Node()
	set(c.policy, 1, node.Mode)
	set(c.synchronized, truth(node.NRI.State == agentapi.NRISynchronized))
	set(c.granted, float64(node.Memlock.Granted))
	set(c.unlimited, float64(node.Memlock.Unlimited))
	if node.Memlock.Max > 0 {
		set(c.maximum, float64(node.Memlock.Max))
	}
}

func byState(launchers []agentapi.Launcher) map[agentapi.State]float64 {
	counts := map[agentapi.State]float64{
		agentapi.StateCreating: 0, agentapi.StateCreated: 0, agentapi.StateRunning: 0,
		agentapi.StateStopped: 0, agentapi.StateRefused: 0,
	}
	for i := range launchers {
		counts[launchers[i].State]++
	}
	return counts
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
