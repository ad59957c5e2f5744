package metrics

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

const namespace = "mooring"

// Build names the program in mooring_build_info.
type Build struct {
	Version, Revision, GoVersion string
}

// Metrics counts the agent's actions. Its methods do not block. It is safe for concurrent
// use.
type Metrics struct {
	registry *prometheus.Registry

	requests      *prometheus.CounterVec
	duration      *prometheus.HistogramVec
	decisions     *prometheus.CounterVec
	synchronized  prometheus.Counter
	disconnects   prometheus.Counter
	abandoned     prometheus.Counter
	events        *prometheus.CounterVec
	checks        *prometheus.CounterVec
	changes       *prometheus.CounterVec
	checksDropped prometheus.Counter
	kubeEvents    *prometheus.CounterVec
	vmActions     *prometheus.CounterVec
	hintsDropped  prometheus.Counter
	nodeHooks     *prometheus.CounterVec
}

// New returns metrics in a new registry, together with the metrics of the Go runtime and of
// the process.
func New(build Build) *Metrics {
	m := &Metrics{
		registry: prometheus.NewRegistry(),
		requests: counters("nri_requests_total",
			"Requests from the container runtime, by method and outcome.", "method", "status"),
		duration: nriDuration(),
		decisions: counters("decisions_total",
			"Decisions about the creation of launcher containers, by outcome.", "outcome"),
		synchronized: counter("nri_synchronizations_total",
			"Connections to the container runtime that completed NRI's Synchronize."),
		disconnects: counter("nri_disconnects_total",
			"Connections to the container runtime that failed or ended."),
		abandoned: counter("nri_abandoned_stubs_total",
			"Hanging attempts to connect that the agent abandoned, with their memory."),
		events: counters("events_total", "Events about launchers that the agent wrote, by type "+
			"and reason.", "type",
			"reason"),
		checks: counters("guard_checks_total",
			"Comparisons of a granted setting with the kernel's value, by setting and result.",
			"setting", "status"),
		changes: counters("guard_changes_total",
			"Checks whose result differs from the previous check, by setting and result.",
			"setting", "status"),
		checksDropped: counter("guard_checks_dropped_total",
			"Checks skipped because too many were waiting. The next regular check makes up "+
				"for one."),
		kubeEvents: counters("kube_events_total", "Events sent to the Kubernetes API, by outcome.",
			"status"),
		vmActions: counters("vm_actions_total", "Actions to end VM processes, by action and "+
			"result.",
			"action", "status"),
		hintsDropped: counter("hints_dropped_total",
			"Kernel events dropped because too many were waiting. A full scan finds the same "+
				"facts."),
		nodeHooks: counters("node_hooks_total", "Calls of node hooks by KubeVirt, by hook point "+
			"and result.", "hook", "status"),
	}
	m.registry.MustRegister(
		m.requests, m.duration, m.decisions, m.synchronized, m.disconnects, m.abandoned, m.events,
		m.checks, m.changes, m.checksDropped, m.kubeEvents, m.vmActions, m.hintsDropped,
		m.nodeHooks, buildInfo(build),
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	m.startAtZero()
	return m
}

// Handler serves the metrics.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{Registry: m.registry})
}

func counter(name, help string) prometheus.Counter {
	return prometheus.NewCounter(prometheus.CounterOpts{Namespace: namespace, Name: name,
		Help: help})
}

func counters(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Name: name,
		Help: help}, labels)
}

// nriDuration has buckets from 10 us, the time of a fast handler, to 2 s. After 2 s containerd
// disconnects a plugin. Each creation of a container on the node waits for the handler.
func nriDuration() *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Namespace: namespace,
		Name:      "nri_request_duration_seconds",
		Help:      "Duration of requests from the container runtime, by method.",
		Buckets:   []float64{.00001, .00005, .0001, .0005, .001, .005, .01, .05, .1, .5, 1, 2},
	}, []string{"method"})
}

func buildInfo(build Build) prometheus.Collector {
	info := prometheus.NewGauge(prometheus.GaugeOpts{
		Namespace: namespace,
		Name:      "build_info",
		Help:      "Always 1; the labels identify the program.",
		ConstLabels: prometheus.Labels{
			"version": build.Version, "revision": build.Revision, "goversion": build.GoVersion,
		},
	})
	info.Set(1)
	return info
}
