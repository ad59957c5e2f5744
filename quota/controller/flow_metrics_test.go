package controller

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// TestFlowMetrics follows a migration that the quota rejects until the controller has seen room.
func TestFlowMetrics(t *testing.T) {
	w, registry := newWorld(t), prometheus.NewRegistry()
	r := w.reconciler(interceptor.Funcs{})
	r.Metrics = NewMetrics(registry)
	r.Metrics.flow.now = func() time.Time { return w.now }
	want := func(when, text string) {
		t.Helper()
		if err := testutil.GatherAndCompare(registry, strings.NewReader(text),
			"mooring_quota_reserved", "mooring_quota_waiting",
			"mooring_quota_waiting_oldest_seconds"); err != nil {
			t.Errorf("%s: %v", when, err)
		}
	}
	rejected := migration(kubevirtv1.MigrationPending)
	rejected.Status.Conditions = []kubevirtv1.VirtualMachineInstanceMigrationCondition{{
		Type:   kubevirtv1.VirtualMachineInstanceMigrationRejectedByResourceQuota,
		Status: corev1.ConditionTrue}}
	w.create(t, rejected)
	for range 3 { // kube-controller-manager stands still
		_, err := reconcileOnce(r)
		w.must(t, err)
	}
	w.now = w.now.Add(40 * time.Second)
	want("while it waits", flowText("1", map[string]string{"WaitingForQuota": "1"}, "40"))
	w.enforce(t)
	_, err := reconcileOnce(r)
	w.must(t, err)
	want("when it has room", flowText("1", map[string]string{"RetryPending": "1"}, "40"))
	if n := testutil.CollectAndCount(r.Metrics.flow.granted); n != 1 {
		t.Fatalf("%d histograms, want 1", n)
	}
	if sum := grantSum(t, registry); sum != 40 {
		t.Errorf("granted after %v seconds, want 40", sum)
	}
	w.remove(t, migration(""))
	w.must(t, w.settle(t, r))
	w.must(t, w.api.Delete(t.Context(), launcher("source", nil)))
	w.must(t, w.settle(t, r))
	want("at the end", flowText("0", nil, "0"))
	r.forget(r.namespaces.get(namespaceName))
	want("without the namespace", flowText("0", nil, "0"))
}

func grantSum(t *testing.T, registry *prometheus.Registry) float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() == "mooring_quota_grant_seconds" {
			return family.GetMetric()[0].GetHistogram().GetSampleSum()
		}
	}
	t.Fatal("no histogram")
	return 0
}

// flowText returns the gauges in the format of Prometheus.
func flowText(reserved string, waiting map[string]string, oldest string) string {
	text := `# HELP mooring_quota_reserved Migrations with a reservation for a pod.
# TYPE mooring_quota_reserved gauge
mooring_quota_reserved ` + reserved + `
# HELP mooring_quota_waiting Migrations whose target pod a quota rejects, by the reason of the condition Waiting.
# TYPE mooring_quota_waiting gauge
`
	for _, reason := range []string{"ObserveMode", "QuotaFull", "RetryPending", "WaitingForGuard",
		"WaitingForQuota", "WaitingForShare", "WaitingForSlot"} {
		n := waiting[reason]
		if n == "" {
			n = "0"
		}
		text += `mooring_quota_waiting{reason="` + reason + `"} ` + n + "\n"
	}
	return text + `# HELP mooring_quota_waiting_oldest_seconds Age of the longest wait of a migration whose target pod a quota rejects; 0 without a wait.
# TYPE mooring_quota_waiting_oldest_seconds gauge
mooring_quota_waiting_oldest_seconds ` + oldest + "\n"
}
