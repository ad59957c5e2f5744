package metrics

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/mooring-vm/mooring/api/agentapi"
)

// State holds the sources of the gauges. Every scrape calls the functions, concurrently with
// each other. They must answer from memory, except that Tracker may read the kernel's maps, and
// Fence the times of a file.
type State struct {
	Launchers func() []agentapi.Launcher
	Node      func() agentapi.Node
	Tracker   func() agentapi.Tracker // nil without a tracker
	Locked    func() Locked
	// Fence reports whether a fence runs; known is false if none has run since the node booted.
	Fence func() (up, known bool)
}

// Locked is the locked memory of all launchers with a memory lock.
type Locked struct {
	Bytes     int64
	Ratio     float64 // highest ratio of a launcher's locked memory to its limit
	NearLimit int     // launchers with nearly no room below their limit
}

// Watch adds gauges for the state of the agent, its launchers and the tracker. It must be
// called at most once.
func (m *Metrics) Watch(state State) error {
	for _, c := range []prometheus.Collector{newStateCollector(state), newTrackerCollector(state)} {
		if err := m.registry.Register(c); err != nil {
			return fmt.Errorf("register the gauges: %w", err)
		}
	}
	return nil
}

// stateCollector reads the state at each scrape, so that no gauge can be out of date.
type stateCollector struct {
	state        State
	launchers    *prometheus.Desc
	phases       *prometheus.Desc
	vms          *prometheus.Desc
	policy       *prometheus.Desc
	synchronized *prometheus.Desc
	fence        *prometheus.Desc
	granted      *prometheus.Desc
	maximum      *prometheus.Desc
	unlimited    *prometheus.Desc
	unbounded    *prometheus.Desc
	locked       *prometheus.Desc
	lockedRatio  *prometheus.Desc
	nearLimit    *prometheus.Desc
}

func newStateCollector(state State) *stateCollector {
	return &stateCollector{
		state:     state,
		launchers: describe("launchers", "Launcher containers on the node, by state.", "state"),
		phases: describe("launcher_phases",
			"Launcher containers with tracked VM processes, by phase.", "phase"),
		vms: describe("vms", "VM processes of launchers, by state.", "state"),
		policy: describe("policy_info", "Always 1; the label is the mode of the node policy.",
			"mode"),
		synchronized: describe("nri_synchronized",
			"1 while the container runtime calls the agent for every container, 0 otherwise."),
		fence: describe("fence_up",
			"1 while the node's fence runs, 0 after it has ended; absent if none has run."),
		granted: describe("memlock_granted_bytes",
			"Memory that launchers with a memory lock can lock."),
		maximum: describe("memlock_max_bytes",
			"Ceiling of the policy for mooring_memlock_granted_bytes; absent without one."),
		unlimited: describe("memlock_unlimited_launchers",
			"Launchers with an unlimited memory-lock limit."),
		unbounded: describe("memlock_unbounded_launchers",
			"Launchers with a memory lock that no memory limit bounds."),
		locked: describe("memlock_locked_bytes",
			"Locked and pinned memory of VM processes of launchers with a memory lock."),
		lockedRatio: describe("memlock_locked_ratio",
			"Highest ratio of a launcher's locked memory to its limit."),
		nearLimit: describe("memlock_near_limit_launchers",
			"Launchers that have locked nearly all that they may lock."),
	}
}

func describe(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(prometheus.BuildFQName(namespace, "", name), help, labels, nil)
}

// Describe implements prometheus.Collector.
func (c *stateCollector) Describe(descs chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{c.launchers, c.phases, c.vms, c.policy, c.synchronized,
		c.fence, c.granted, c.maximum, c.unlimited, c.unbounded,
		c.locked, c.lockedRatio, c.nearLimit} {
		descs <- desc
	}
}

// Collect implements prometheus.Collector.
func (c *stateCollector) Collect(metrics chan<- prometheus.Metric) {
	set := func(desc *prometheus.Desc, value float64, labels ...string) {
		metrics <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, labels...)
	}
	launchers := c.state.Launchers()
	for state, count := range byState(launchers) {
		set(c.launchers, count, string(state))
	}
	for phase, count := range byPhase(launchers) {
		set(c.phases, count, string(phase))
	}
	for state, count := range vmsByState(launchers) {
		set(c.vms, count, string(state))
	}
	node := c.state.Node()
	set(c.policy, 1, node.Mode)
	set(c.synchronized, truth(node.NRI.State == agentapi.NRISynchronized))
	if up, known := c.state.Fence(); known {
		set(c.fence, truth(up))
	}
	set(c.granted, float64(node.Memlock.Granted))
	set(c.unlimited, float64(node.Memlock.Unlimited))
	set(c.unbounded, float64(node.Memlock.Unbounded))
	locked := c.state.Locked()
	set(c.locked, float64(locked.Bytes))
	set(c.lockedRatio, locked.Ratio)
	set(c.nearLimit, float64(locked.NearLimit))
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

func byPhase(launchers []agentapi.Launcher) map[agentapi.Phase]float64 {
	counts := map[agentapi.Phase]float64{
		agentapi.PhaseRegistered: 0, agentapi.PhaseActive: 0, agentapi.PhaseDraining: 0,
		agentapi.PhaseDone: 0,
	}
	for i := range launchers {
		if phase := launchers[i].Phase; phase != "" {
			counts[phase]++
		}
	}
	return counts
}

func vmsByState(launchers []agentapi.Launcher) map[agentapi.VMState]float64 {
	counts := map[agentapi.VMState]float64{agentapi.VMRunning: 0, agentapi.VMStopping: 0,
		agentapi.VMKilling: 0}
	for i := range launchers {
		for _, vm := range launchers[i].VMs {
			counts[vm.State]++
		}
	}
	return counts
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
