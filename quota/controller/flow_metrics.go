package controller

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/mooring-vm/mooring/quota"
)

// flow are the metrics of migrations between their reservation and their target pod. Its methods
// are safe for concurrent use.
type flow struct {
	reserved prometheus.Gauge
	waiting  *prometheus.GaugeVec
	granted  prometheus.Histogram
	now      func() time.Time

	mu     sync.Mutex
	oldest map[string]time.Time // beginning of the longest wait, by namespace
}

func newFlow(registry prometheus.Registerer, now func() time.Time) *flow {
	f := &flow{
		now: now, oldest: map[string]time.Time{},
		reserved: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "mooring_quota_reserved", Help: "Migrations with a reservation for a pod.",
		}),
		waiting: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "mooring_quota_waiting", Help: "Migrations whose target pod a quota rejects, by " +
				"the reason of the condition Waiting.",
		}, []string{"reason"}),
		granted: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "mooring_quota_grant_seconds", Help: "Time from the reservation of a pending " +
				"migration until the controller has seen room for it.",
			Buckets: []float64{0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 15, 60, 300, 1800},
		}),
	}
	registry.MustRegister(f.reserved, f.waiting, f.granted, prometheus.NewGaugeFunc(
		prometheus.GaugeOpts{
			Name: "mooring_quota_waiting_oldest_seconds", Help: "Age of the longest wait of a " +
				"migration whose target pod a quota rejects; 0 without a wait.",
		}, f.oldestWait))
	for _, reason := range quota.WaitingReasons() {
		f.waiting.WithLabelValues(reason)
	}
	return f
}

// set replaces what a namespace contributes to the gauges.
func (f *flow) set(namespace string, before, now states) {
	f.reserved.Add(float64(now.reserved - before.reserved))
	for _, w := range before.waiting {
		f.waiting.WithLabelValues(w.Reason).Dec()
	}
	var oldest time.Time
	for _, w := range now.waiting {
		f.waiting.WithLabelValues(w.Reason).Inc()
		if oldest.IsZero() || w.Since.Before(oldest) {
			oldest = w.Since
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.oldest, namespace)
	if !oldest.IsZero() {
		f.oldest[namespace] = oldest
	}
}

// oldestWait returns the age of the longest wait in seconds.
func (f *flow) oldestWait() float64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	longest := 0.0
	for _, since := range f.oldest {
		longest = max(longest, f.now().Sub(since).Seconds())
	}
	return longest
}
