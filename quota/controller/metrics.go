package controller

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics are the controller's metrics. Their methods are safe for concurrent use.
type Metrics struct {
	writes   *prometheus.CounterVec
	reads    *prometheus.CounterVec
	overruns prometheus.Gauge
	faults   prometheus.Gauge
	kubeVirt prometheus.Gauge
	flow     *flow
}

// The outcomes of a write.
const (
	outcomeDone     = "done"
	outcomeConflict = "conflict"
	outcomeFailed   = "failed"

	outcomeWithheld = "withheld" // mode observe
)

// NewMetrics returns registered metrics that start at zero.
func NewMetrics(registry prometheus.Registerer) *Metrics {
	m := &Metrics{
		writes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "mooring_quota_writes_total", Help: "Writes to the API server.",
		}, []string{"object", "outcome"}),
		reads: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "mooring_quota_looks_total", Help: "Reads of a namespace, by the part read " +
				"from the API server.",
		}, []string{"at"}),
		overruns: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "mooring_quota_overruns", Help: "Quotas with more use than base and without " +
				"reservations, for 30 seconds or more.",
		}),
		faults: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "mooring_quota_faults", Help: "Objects with an invalid field, which the " +
				"controller skips.",
		}),
		kubeVirt: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "mooring_quota_kubevirt_served", Help: "1 if the API server serves KubeVirt's " +
				"kinds; the controller waits for them.",
		}),
	}
	registry.MustRegister(m.writes, m.reads, m.overruns, m.faults, m.kubeVirt)
	m.flow = newFlow(registry, time.Now)
	m.startAtZero()
	return m
}

func (m *Metrics) startAtZero() {
	for _, k := range []kind{kindReservation, kindStatus, kindQuota, kindNamespace} {
		for _, outcome := range []string{outcomeDone, outcomeConflict, outcomeFailed} {
			m.writes.WithLabelValues(string(k), outcome)
		}
	}
	m.writes.WithLabelValues(string(kindQuota), outcomeWithheld)
	for _, at := range []string{readCache, readLedger, readLive} {
		m.reads.WithLabelValues(at)
	}
}

func (m *Metrics) countWrite(k kind, err error) {
	outcome := outcomeDone
	switch {
	case stale(err):
		outcome = outcomeConflict
	case err != nil:
		outcome = outcomeFailed
	}
	m.writes.WithLabelValues(string(k), outcome).Inc()
}

func (m *Metrics) countWithheld() {
	m.writes.WithLabelValues(string(kindQuota), outcomeWithheld).Inc()
}

func (m *Metrics) countRead(at string) { m.reads.WithLabelValues(at).Inc() }

// observeGrant records how long a pending migration has waited for room.
func (m *Metrics) observeGrant(wait time.Duration) { m.flow.granted.Observe(wait.Seconds()) }

// setStates updates the gauges by the change of a namespace's states.
func (m *Metrics) setStates(namespace string, before, now states) {
	m.flow.set(namespace, before, now)
	m.overruns.Add(float64(reportedOverruns(now) - reportedOverruns(before)))
	m.faults.Add(float64(len(now.faults) - len(before.faults)))
}

func (m *Metrics) setKubeVirtServed() { m.kubeVirt.Set(1) }

func reportedOverruns(s states) int {
	n := 0
	for _, o := range s.overruns {
		if o.reported {
			n++
		}
	}
	return n
}
