package controller

import "github.com/prometheus/client_golang/prometheus"

// Metrics are what the controller counts. Their methods are safe for concurrent use.
type Metrics struct {
	writes   *prometheus.CounterVec
	looks    *prometheus.CounterVec
	overruns prometheus.Gauge
	faults   prometheus.Gauge
}

// The outcomes of a write.
const (
	outcomeDone     = "done"
	outcomeConflict = "conflict"
	outcomeFailed   = "failed"
)

// NewMetrics returns metrics that start at zero and are registered.
func NewMetrics(registry prometheus.Registerer) *Metrics {
	m := &Metrics{
		writes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "mooring_quota_writes_total", Help: "Writes to the API server.",
		}, []string{"object", "outcome"}),
		looks: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "mooring_quota_looks_total", Help: "Readings of a namespace, by what was read from the API server.",
		}, []string{"at"}),
		overruns: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "mooring_quota_overruns", Help: "Quotas of which more has been used than they allow for a while, with nothing reserved.",
		}),
		faults: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "mooring_quota_faults", Help: "Objects that cannot be dealt with and are left alone.",
		}),
	}
	registry.MustRegister(m.writes, m.looks, m.overruns, m.faults)
	m.startAtZero()
	return m
}

func (m *Metrics) startAtZero() {
	for _, k := range []kind{kindReservation, kindStatus, kindQuota, kindNamespace} {
		for _, outcome := range []string{outcomeDone, outcomeConflict, outcomeFailed} {
			m.writes.WithLabelValues(string(k), outcome)
		}
	}
	for _, at := range []string{lookCache, lookLedger, lookLive} {
		m.looks.WithLabelValues(at)
	}
}

func (m *Metrics) wrote(k kind, err error) {
	outcome := outcomeDone
	switch {
	case stale(err):
		outcome = outcomeConflict
	case err != nil:
		outcome = outcomeFailed
	}
	m.writes.WithLabelValues(string(k), outcome).Inc()
}

func (m *Metrics) looked(at string) { m.looks.WithLabelValues(at).Inc() }

// tell counts what is new in the states of a namespace.
func (m *Metrics) tell(before, now states) {
	m.overruns.Add(float64(toldOf(now) - toldOf(before)))
	m.faults.Add(float64(len(now.faults) - len(before.faults)))
}

func toldOf(s states) int {
	n := 0
	for _, o := range s.overruns {
		if o.told {
			n++
		}
	}
	return n
}
