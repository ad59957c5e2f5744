package fencing

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
)

// Metrics are the controller's metrics. Their methods are safe for concurrent use.
type Metrics struct {
	released         *prometheus.CounterVec
	waiting, longest *prometheus.Desc
	now              func() time.Time

	mu   sync.Mutex
	pods map[types.NamespacedName]waitingPod
}

type waitingPod struct {
	reason Reason
	since  time.Time
}

// NewMetrics returns registered metrics that start at zero.
func NewMetrics(registry prometheus.Registerer) *Metrics {
	m := &Metrics{
		released: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "mooring_fencing_released_total", Help: "Deleted pods that the controller " +
				"released, by the proof that their VM does not run.",
		}, []string{"reason"}),
		waiting: prometheus.NewDesc("mooring_fencing_waiting_pods", "Deleted pods that wait for "+
			"the proof that their VM does not run, by the missing part.", []string{"reason"}, nil),
		longest: prometheus.NewDesc("mooring_fencing_longest_wait_seconds", "Longest time of a "+
			"waiting pod since the end of its grace period, by the missing part.",
			[]string{"reason"}, nil),
		now: time.Now, pods: map[types.NamespacedName]waitingPod{},
	}
	for _, reason := range []Reason{NeverBound, NeverStarted, VMEnded, NodeOutOfService} {
		m.released.WithLabelValues(string(reason))
	}
	registry.MustRegister(m.released, m)
	return m
}

func (m *Metrics) wait(pod types.NamespacedName, reason Reason, since time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.pods[pod] = waitingPod{reason, since}
}

func (m *Metrics) forget(pod types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.pods, pod)
}

// Describe implements [prometheus.Collector].
func (m *Metrics) Describe(to chan<- *prometheus.Desc) { to <- m.waiting; to <- m.longest }

// Collect implements [prometheus.Collector]. Ages are as of the scrape.
func (m *Metrics) Collect(to chan<- prometheus.Metric) {
	m.mu.Lock()
	defer m.mu.Unlock()
	counts, longest := map[Reason]int{}, map[Reason]time.Duration{}
	for _, p := range m.pods {
		counts[p.reason]++
		longest[p.reason] = max(longest[p.reason], m.now().Sub(p.since))
	}
	for _, reason := range Reasons() {
		to <- prometheus.MustNewConstMetric(m.waiting, prometheus.GaugeValue,
			float64(counts[reason]), string(reason))
		to <- prometheus.MustNewConstMetric(m.longest, prometheus.GaugeValue,
			longest[reason].Seconds(), string(reason))
	}
}
