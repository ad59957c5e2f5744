package controller

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/mooring-vm/mooring/quota"
	"github.com/mooring-vm/mooring/quota/resizevm"
	"github.com/mooring-vm/mooring/quota/webhook/observe"
)

// bare is a manager with a given mapper.
type bare struct {
	manager.Manager
	mapper meta.RESTMapper
	scheme *runtime.Scheme
}

func (b bare) GetRESTMapper() meta.RESTMapper { return b.mapper }
func (b bare) GetScheme() *runtime.Scheme     { return b.scheme }
func (b bare) Add(manager.Runnable) error     { return nil }

// The controller logs missing kinds once. It is ready when only KubeVirt's kinds are missing.
func TestKindsAreWaitedFor(t *testing.T) {
	scheme, err := NewScheme()
	if err != nil {
		t.Fatal(err)
	}
	mapper := meta.NewDefaultRESTMapper(nil)
	var log bytes.Buffer
	c, err := Add(bare{mapper: mapper, scheme: scheme},
		Options{Logger: slog.New(slog.NewTextHandler(&log, nil)),
			Metrics: NewMetrics(prometheus.NewRegistry())})
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range watches() {
		for range 2 {
			if c.kindsServed() {
				t.Fatal("kinds are there that are not served")
			}
		}
		gvk, err := apiutil.GVKForObject(w.object, scheme)
		if err != nil {
			t.Fatal(err)
		}
		err = c.Ready(nil)
		if !w.kubeVirt && (err == nil || !strings.Contains(err.Error(), gvk.Kind)) {
			t.Errorf("not ready: %v, want it to name %s", err, gvk.Kind)
		}
		if w.kubeVirt && err != nil {
			t.Errorf("not ready without %s: %v", gvk.Kind, err)
		}
		mapper.Add(gvk, meta.RESTScopeNamespace)
	}
	if !c.kindsServed() {
		t.Errorf("missing: %v", missingKinds(watches(), mapper, scheme))
	}
	if got, want := strings.Count(log.String(), "level=WARN"), len(watches()); got != want {
		t.Errorf("%d warnings in the log, want %d:\n%s", got, want, log.String())
	}
}

var metricRow = regexp.MustCompile("(?m)^\\| `(mooring_[a-z_]+)` \\| ([a-z]+) \\| ([^|]+) \\|")

// The documentation lists every metric with type and labels.
func TestMetricsAreDocumented(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "reference", "metrics.md"))
	if err != nil {
		t.Fatal(err)
	}
	documented := map[string]string{}
	for _, row := range metricRow.FindAllStringSubmatch(string(text), -1) {
		if strings.HasPrefix(row[1], "mooring_quota_") {
			documented[row[1]] = row[2] + " " + row[3]
		}
	}
	registry := prometheus.NewRegistry()
	NewMetrics(registry)
	observe.New(nil, registry)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	served := map[string]string{}
	for _, family := range families {
		var labels []string
		for _, label := range family.GetMetric()[0].GetLabel() { // in alphabetical order
			labels = append(labels, "`"+label.GetName()+"`")
		}
		if len(labels) == 0 {
			labels = []string{"none"}
		}
		served[family.GetName()] = strings.ToLower(family.GetType().String()) + " " +
			strings.Join(labels, ", ")
	}
	if diff := cmp.Diff(served, documented); diff != "" {
		t.Errorf("metrics (-served +documented):\n%s", diff)
	}
}

func TestEventsAreDocumented(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "reference", "events.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, reason := range []string{
		quota.ReasonReserved, quota.ReasonGrown, quota.ReasonGranted, quota.ReasonReleased,
		quota.ReasonWaiting,
		ReasonOverrun, ReasonFault, ReasonHalted,
		resizevm.ReasonResizing, resizevm.ReasonResized, resizevm.ReasonFailed,
		resizevm.ReasonWouldResize,
	} {
		if !strings.Contains(string(text), "\n| `"+reason+"` | ") {
			t.Errorf("docs/reference/events.md lacks %s", reason)
		}
	}
}
