package quota_test

import (
	"strings"
	"testing"
	"time"

	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/mooring-vm/mooring/quota"
)

func TestOpenUntil(t *testing.T) {
	at := func(d time.Duration) string { return start().Add(d).Format(time.RFC3339) }
	for name, test := range map[string]struct {
		value   string
		open    bool
		invalid bool
	}{
		"missing":     {"", false, false},
		"for an hour": {at(time.Hour), true, false},
		"for a day":   {at(24 * time.Hour), true, false},
		"for longer":  {at(25 * time.Hour), false, true},
		"the past":    {at(-time.Second), false, false},
		"now":         {at(0), false, false},
		"no time":     {"true", false, true},
	} {
		t.Run(name, func(t *testing.T) {
			ns := snapshot().Namespace
			ns.Annotations = map[string]string{quota.OpenAnnotation: test.value}
			until, err := quota.OpenUntil(ns, start())
			if until.IsZero() == test.open || (err != nil) != test.invalid {
				t.Errorf("got %v, %v", until, err)
			}
			if err != nil && !strings.Contains(err.Error(), "at most 24 hours ahead") {
				t.Errorf("%v: want the allowed range", err)
			}
		})
	}
}

// An open namespace needs no guard: its quotas are raised without a proof, until it closes.
func TestOpenNamespaceNeedsNoGuard(t *testing.T) {
	w := fullNamespace("4Gi", "4Gi")
	w.s.Migrations = append(w.s.Migrations, migration("m", "vm0", kubevirtv1.MigrationPending))
	w.s.Unguarded = "no answer"
	until := start().Add(time.Hour)
	w.s.Namespace.Annotations = map[string]string{
		quota.OpenAnnotation: until.Format(time.RFC3339)}
	p := quota.MakePlan(w.snapshot(), quota.Options{})
	if !p.Open.Equal(until) || !p.NextPlan.Equal(until) {
		t.Errorf("open until %v, next plan at %v, want %v", p.Open, p.NextPlan, until)
	}
	w.control(t)
	wantHard(t, w.snapshot(), list("limits.memory", "8Gi"))
	w.s.Namespace.Annotations[quota.OpenAnnotation] = "soon"
	faults := quota.MakePlan(w.snapshot(), quota.Options{}).Faults
	if len(faults) != 1 || faults[0].Kind != "Namespace" {
		t.Errorf("faults %v, want one of the namespace", faults)
	}
}
