package quota

import (
	"encoding/json"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/mooring-vm/mooring/api/v1alpha1"
	kubevirttest "github.com/mooring-vm/mooring/integration/kubevirt"
	"github.com/mooring-vm/mooring/quota"
)

// wantMigratingVMs checks the reservation reported in the quota's annotation. Only this prefix may
// carry the annotation.
func wantMigratingVMs(
	t *testing.T, c *kubevirttest.Cluster, ns, prefix string, r v1alpha1.MigrationReservation,
) {
	t.Helper()
	q := quotaOf(t, c, ns, kubevirttest.QuotaName)
	for key := range q.Annotations {
		if strings.HasSuffix(key, "/"+quota.MigratingName) && key != prefix+quota.MigratingName {
			t.Errorf("annotation %s: want it with %s", key, prefix)
		}
	}
	text := q.Annotations[prefix+quota.MigratingName]
	var got map[string]corev1.ResourceList
	if err := json.Unmarshal([]byte(text), &got); err != nil {
		t.Fatalf("annotation %q: %v", text, err)
	}
	charge := reserved(&r)
	want := corev1.ResourceList{}
	for name := range q.Spec.Hard {
		want[name] = charge[name]
	}
	if !equality.Semantic.DeepEqual(got, map[string]corev1.ResourceList{r.Spec.VMI.Name: want}) {
		t.Errorf("annotation %s, want %v for %s", text, want, r.Spec.VMI.Name)
	}
}
