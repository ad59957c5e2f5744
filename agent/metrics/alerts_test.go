package metrics

import (
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
)

// minutes is the length of a history: one sample a minute, the last one now.
const minutes = 90

// samples are the samples of series by name and labels. gone marks a series that has ended.
type samples map[string][]float64

var gone = math.Float64frombits(value.StaleNaN)

// steady is a series with the same value at all times.
func steady(v float64) []float64 { return slices.Repeat([]float64{v}, minutes) }

// changed is a series whose value has changed some minutes ago.
func changed(before, after float64, ago int) []float64 {
	all := steady(before)
	for i := minutes - ago; i < minutes; i++ {
		all[i] = after
	}
	return all
}

// growing is a counter that grows by step each minute.
func growing(step float64) []float64 {
	all := steady(0)
	for i := range all {
		all[i] = float64(i) * step
	}
	return all
}

const (
	agentUp      = `up{instance="node-1",pod="mooring-agent-x"}`
	controllerUp = `up{instance="10.0.0.1:9809",pod="mooring-controller-x"}`
)

// healthy has the metrics of one node and of one controller.
func healthy() samples {
	all := samples{agentUp: steady(1), controllerUp: steady(1)}
	for name, v := range map[string]float64{
		"build_info": 1, "fence_up": 1, "nri_synchronized": 1, "nri_synchronizations_total": 1,
		"memlock_granted_bytes": 1 << 30, "memlock_max_bytes": 4 << 30, "tracker_up": 1,
		"memlock_near_limit_launchers": 0,
		"tracker_processes":            10, "tracker_max_processes": 1000, "tracker_map_full_total": 0,
	} {
		all["mooring_"+name+`{instance="node-1"}`] = steady(v)
	}
	for _, reason := range []string{"LimitMissing", "CgroupDiffers", "OwnerGone", "VMUnattended",
		"VMStuck", "LauncherHung"} {
		all[`mooring_events_total{instance="node-1",reason="`+reason+`"}`] = steady(0)
	}
	all[`mooring_decisions_total{instance="node-1",outcome="refused"}`] = steady(0)
	all[`mooring_decisions_total{instance="node-1",outcome="set"}`] = growing(1)
	all[`mooring_vms{instance="node-1",state="Killing"}`] = steady(0)
	all[`mooring_vm_actions_total{instance="node-1",status="error"}`] = steady(0)
	for le, step := range map[string]float64{"0.01": 60, "0.1": 60, "1": 60, "+Inf": 60} {
		all[`mooring_nri_request_duration_seconds_bucket{instance="node-1",le="`+le+`"}`] =
			growing(step)
	}
	for _, name := range []string{"overruns", "faults"} {
		all["mooring_quota_"+name+`{instance="10.0.0.1:9809"}`] = steady(0)
	}
	for name, v := range map[string]float64{"reserved": 3, "waiting_oldest_seconds": 40} {
		all["mooring_quota_"+name+`{instance="10.0.0.1:9809"}`] = steady(v)
	}
	for reason, v := range map[string]float64{"QuotaFull": 1, "WaitingForGuard": 0,
		"WaitingForQuota": 0} {
		all[waiting(reason)] = steady(v)
	}
	all[`mooring_quota_kubevirt_served{instance="10.0.0.1:9809"}`] = steady(1)
	for reason, v := range map[string]float64{"LauncherRuns": 40, "VMRuns": 0, "NodeNotReady": 0} {
		all[longestWait("10.0.0.1:9809", reason)] = steady(v)
		all[longestWait("10.0.0.2:9809", reason)] = steady(0) // of the replica that does not lead
	}
	return all
}

// waiting is the gauge of migrations that wait for a reason.
func waiting(reason string) string {
	return `mooring_quota_waiting{instance="10.0.0.1:9809",reason="` + reason + `"}`
}

// longestWait is the gauge of deleted pods that wait for a proof, at a replica of the controller.
func longestWait(instance, reason string) string {
	return `mooring_fencing_longest_wait_seconds{instance="` + instance + `",reason="` + reason +
		`"}`
}

// event is a counter of events that has grown five minutes ago.
func event(reason string) samples {
	return samples{
		`mooring_events_total{instance="node-1",reason="` + reason + `"}`: changed(0, 1, 5),
	}
}

// faults are the deviations from [healthy] on which each alert must fire.
func faults() map[string][]samples {
	node := func(metric string, values []float64) samples {
		return samples{"mooring_" + metric + `{instance="node-1"}`: values}
	}
	return map[string][]samples{
		"MooringAgentAbsent": {
			{agentUp: changed(1, 0, 10)}, node("build_info", changed(1, gone, 10)),
		},
		"MooringFenceAbsent": {node("fence_up", changed(1, 0, 10))},
		"MooringControllerAbsent": {
			{controllerUp: changed(1, 0, 10)},
			{`mooring_quota_kubevirt_served{instance="10.0.0.1:9809"}`: changed(1, gone, 10)},
		},
		"MooringNotSynchronized": {node("nri_synchronized", changed(1, 0, 5))},
		"MooringReconnects":      {node("nri_synchronizations_total", growing(0.2))},
		"MooringLimitMissing":    {event("LimitMissing")},
		"MooringCgroupDiffers":   {event("CgroupDiffers")},
		"MooringRefusals": {
			{`mooring_decisions_total{instance="node-1",outcome="refused"}`: changed(0, 1, 5)},
		},
		"MooringNodeCeiling":  {node("memlock_granted_bytes", steady(3.9*(1<<30)))},
		"MooringLockedMemory": {node("memlock_near_limit_launchers", changed(0, 1, 15))},
		"MooringNoTracker":    {node("tracker_up", changed(1, 0, 10))},
		"MooringTrackerFull": {
			node("tracker_processes", steady(950)),
			node("tracker_map_full_total", changed(0, 1, 5)),
		},
		"MooringVMLeftBehind": {event("OwnerGone"), event("VMUnattended")},
		"MooringVMStuck": {
			event("VMStuck"),
			{`mooring_vms{instance="node-1",state="Killing"}`: changed(0, 1, 3)},
		},
		"MooringVMActionFailed": {
			{`mooring_vm_actions_total{instance="node-1",status="error"}`: changed(0, 1, 5)},
		},
		"MooringLauncherHung": {event("LauncherHung")},
		"MooringSlowHandlers": {{
			`mooring_nri_request_duration_seconds_bucket{instance="node-1",le="0.01"}`: steady(0),
			`mooring_nri_request_duration_seconds_bucket{instance="node-1",le="0.1"}`:  steady(0),
		}},
		"MooringQuotaOverrun": {
			{`mooring_quota_overruns{instance="10.0.0.1:9809"}`: changed(0, 1, 15)},
		},
		"MooringQuotaFault": {
			{`mooring_quota_faults{instance="10.0.0.1:9809"}`: changed(0, 1, 15)},
		},
		"MooringQuotaWaiting": {
			{`mooring_quota_waiting_oldest_seconds{instance="10.0.0.1:9809"}`: changed(0, 400, 15)},
		},
		"MooringQuotaUnguarded":  {{waiting("WaitingForGuard"): changed(0, 2, 5)}},
		"MooringQuotaNotInForce": {{waiting("WaitingForQuota"): changed(0, 2, 5)}},
		"MooringPodWaitsForVM": {
			{longestWait("10.0.0.1:9809", "VMRuns"): changed(0, 400, 15)},
			{longestWait("10.0.0.2:9809", "NodeNotReady"): changed(0, 400, 15)},
		},
	}
}

// TestAlertsFire evaluates each alert with Prometheus' engine. It fires on its faults, no alert
// fires on a healthy cluster, and the labels of its summary exist.
func TestAlertsFire(t *testing.T) {
	all := faults()
	for _, rule := range alertRules(t) {
		if len(firing(t, rule, healthy())) > 0 {
			t.Errorf("%s fires on a healthy cluster", rule.Alert)
		}
		if len(all[rule.Alert]) == 0 {
			t.Errorf("%s: no fault", rule.Alert)
		}
		for _, fault := range all[rule.Alert] {
			series := healthy()
			maps.Copy(series, fault)
			alerts := firing(t, rule, series)
			if len(alerts) != 1 {
				t.Errorf("%s: %d alerts on %v", rule.Alert, len(alerts),
					slices.Collect(maps.Keys(fault)))
				continue
			}
			if strings.Contains(rule.Annotations.Summary, "$labels.instance") &&
				alerts[0].Metric.Get("instance") != "node-1" {
				t.Errorf("%s has labels %s, want the node as instance", rule.Alert,
					alerts[0].Metric)
			}
		}
		delete(all, rule.Alert)
	}
	if len(all) > 0 {
		t.Errorf("faults of unknown alerts: %v", slices.Collect(maps.Keys(all)))
	}
}

// firing returns the alerts of a rule now: its expression has had a result for as long as the
// rule's "for".
func firing(t *testing.T, rule alertRule, series samples) (alerts promql.Vector) {
	t.Helper()
	wait := parseDuration(t, rule.For)
	for ago := wait; ago >= 0; ago -= 30 * time.Second {
		if alerts = evaluate(t, rule.Expr, series, ago); len(alerts) == 0 {
			return nil
		}
	}
	return alerts
}

// evaluate returns the result of an expression some time ago.
func evaluate(t *testing.T, expr string, series samples, ago time.Duration) promql.Vector {
	t.Helper()
	engine := promql.NewEngine(promql.EngineOpts{MaxSamples: 1e6, Timeout: time.Minute})
	defer func() { _ = engine.Close() }()
	query, err := engine.NewInstantQuery(t.Context(), series.storage(t), nil, expr,
		time.Unix(0, 0).Add((minutes-1)*time.Minute-ago))
	if err != nil {
		t.Fatalf("%s: %v", expr, err)
	}
	defer query.Close()
	result, err := query.Exec(t.Context()).Vector()
	if err != nil {
		t.Fatalf("%s: %v", expr, err)
	}
	return slices.Clone(result)
}

// storage returns the samples as a database of Prometheus.
func (s samples) storage(t *testing.T) storage.Queryable {
	t.Helper()
	var all []storage.Series
	for name, values := range s {
		metric, err := parser.ParseMetric(name)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		points := make([]chunks.Sample, len(values))
		for i, v := range values {
			points[i] = sample{int64(i) * time.Minute.Milliseconds(), v}
		}
		all = append(all, storage.NewListSeries(metric, points))
	}
	return &storage.MockQueryable{MockQuerier: &storage.MockQuerier{SelectMockFunction: func(
		_ bool, _ *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
		return &seriesSet{storage.EmptySeriesSet(), matching(all, matchers), -1}
	}}}
}

// sample is one value at a time in milliseconds. It implements [chunks.Sample].
type sample struct {
	at    int64
	value float64
}

func (s sample) T() int64                      { return s.at }
func (s sample) ST() int64                     { return 0 }
func (s sample) F() float64                    { return s.value }
func (s sample) H() *histogram.Histogram       { return nil }
func (s sample) FH() *histogram.FloatHistogram { return nil }
func (s sample) Type() chunkenc.ValueType      { return chunkenc.ValFloat }
func (s sample) Copy() chunks.Sample           { return s }

func matching(all []storage.Series, matchers []*labels.Matcher) (chosen []storage.Series) {
	for _, series := range all {
		if !slices.ContainsFunc(matchers, func(m *labels.Matcher) bool {
			return !m.Matches(series.Labels().Get(m.Name))
		}) {
			chosen = append(chosen, series)
		}
	}
	return chosen
}

// seriesSet implements [storage.SeriesSet].
type seriesSet struct {
	storage.SeriesSet
	series []storage.Series
	at     int
}

func (s *seriesSet) Next() bool         { s.at++; return s.at < len(s.series) }
func (s *seriesSet) At() storage.Series { return s.series[s.at] }

func parseDuration(t *testing.T, text string) time.Duration {
	t.Helper()
	if text == "" {
		return 0
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatal(err)
	}
	return d
}
