package main

import (
	"testing"

	"github.com/mooring-vm/mooring/integration/bench/grants"
	"github.com/mooring-vm/mooring/integration/bench/report"
)

// TestGrantRows: raises are compared with pods, and each amount of memory has its goal.
func TestGrantRows(t *testing.T) {
	rows := map[string]report.Row{}
	for _, row := range grantRows(grants.Options{Quotas: 3}, grants.Found{
		Pods: []float64{1, 1, 1}, Raises: []float64{4, 4, 4},
		Memory: 90e6, MemoryQuotas: 110e6, ResidentLaunched: 7,
	}) {
		rows[row.Measurement] = row
	}
	if r := rows["one migration, in turns with such pods"]; r.Ratio == nil || r.Ratio.Value != 4 {
		t.Errorf("%+v: want 4 times a pod", r)
	}
	for measurement, want := range map[string]report.Verdict{
		"resident memory with 7 VMs":                   report.Met,
		"the same with 3 more namespaces with a quota": report.Missed,
	} {
		r := rows[measurement]
		if len(r.Goals) != 1 {
			t.Fatalf("%s: %+v, want one goal", measurement, r)
		}
		if verdict, err := r.Verdict(r.Goals[0]); err != nil || verdict != want {
			t.Errorf("%s: %s, %v, want %s", measurement, verdict, err, want)
		}
	}
}
