package controller

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	"github.com/mooring-vm/mooring/api/v1alpha1"
)

// Workers raise quotas while maxReporters other workers write statuses. The skipped statuses follow
// later.
func TestQuotasAreRaisedBeforeStatusWrites(t *testing.T) {
	w := newWorld(t)
	r := w.reconciler(interceptor.Funcs{})
	for range maxReporters {
		r.reporting <- struct{}{}
	}
	w.create(t, migration(kubevirtv1.MigrationPending))
	w.must(t, w.settle(t, r))
	if got := w.quota(t).Spec.Hard; !same(got, doubled()) {
		t.Errorf("hard is %v, want %v", got, doubled())
	}
	result, err := reconcileOnce(r)
	w.must(t, err)
	if w.granted(t) || result.RequeueAfter <= 0 || result.RequeueAfter > time.Second ||
		result.Priority == nil || *result.Priority != handler.LowPriority {
		t.Errorf("granted = %v, result %+v, want a later retry", w.granted(t), result)
	}
	<-r.reporting
	w.must(t, w.settle(t, r))
	if !w.granted(t) {
		t.Error("the reservation has no condition Granted")
	}
	if len(r.reporting) != maxReporters-1 {
		t.Errorf("%d workers write statuses, want %d", len(r.reporting), maxReporters-1)
	}
}

func (w *world) granted(t *testing.T) bool {
	t.Helper()
	all := w.ledger(t)
	if len(all) != 1 {
		t.Fatalf("%d reservations, want one", len(all))
	}
	return meta.IsStatusConditionTrue(all[0].Status.Conditions, v1alpha1.ConditionGranted)
}
