package quota

import (
	"regexp"
	"strconv"
	"testing"

	eventsv1 "k8s.io/api/events/v1"
	virtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kubevirttest "github.com/mooring-vm/mooring/integration/kubevirt"
	"github.com/mooring-vm/mooring/quota/controller"
)

// checkEvents expects one Event of each reason on a migration.
func checkEvents(
	t *testing.T, c *kubevirttest.Cluster, m *virtv1.VirtualMachineInstanceMigration,
	reasons []string,
) error {
	t.Helper()
	return missingEvents(reasons, countEvents(t, c, m))
}

// countEvents counts the controller's Events on a migration by reason.
func countEvents(
	t *testing.T, c *kubevirttest.Cluster, m *virtv1.VirtualMachineInstanceMigration,
) map[string]int {
	t.Helper()
	all := &eventsv1.EventList{}
	if err := c.Client.List(t.Context(), all, client.InNamespace(m.Namespace)); err != nil {
		t.Fatal(err)
	}
	got := map[string]int{}
	for _, e := range all.Items {
		if e.ReportingController == controller.Name && e.Regarding.UID == m.UID {
			got[e.Reason]++
		}
	}
	return got
}

var writeCount = regexp.MustCompile(
	`(?m)^mooring_quota_writes_total\{object="(\w+)",outcome="(\w+)"\} (\d+)$`)

// checkWrites fails t if the controller wrote no object, if a write failed, or if a tenth of the
// writes were conflicts.
func checkWrites(t *testing.T, p *program) {
	t.Helper()
	sums, done := writes(t, p)
	if sums["failed"] > 0 || done == 0 || sums["conflict"]*10 > done {
		t.Errorf("writes %v: want none that failed, and less than a tenth in conflict", sums)
	}
}

// writes returns the controller's writes by result, and the number of successful ones.
func writes(t *testing.T, p *program) (sums map[string]int, done int) {
	t.Helper()
	metrics, err := p.get(t.Context(), "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	sums = map[string]int{}
	for _, found := range writeCount.FindAllStringSubmatch(metrics, -1) {
		n, err := strconv.Atoi(found[3])
		if err != nil {
			t.Fatal(err)
		}
		sums[found[2]] += n
		if n > 0 {
			t.Logf("writes of a %s that were %s: %d", found[1], found[2], n)
		}
	}
	return sums, sums["done"]
}
