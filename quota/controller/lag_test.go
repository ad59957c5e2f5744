package controller

import (
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mooring-vm/mooring/api/v1alpha1"
)

// A ledger cache that misses a release must not raise a quota when the quota cache is ahead.
func TestReleasesAreWaitedFor(t *testing.T) {
	w, lag := newWorld(t), &lagging{}
	r := w.reconciler(lag.hooks())
	life := lives()["succeeded"]
	for _, s := range life[:3] {
		s.happen(t, w)
		w.must(t, w.settle(t, r))
	}
	old := &v1alpha1.MigrationReservationList{}
	w.must(t, w.api.List(t.Context(), old, client.InNamespace(namespaceName)))
	lag.kept = []client.ObjectList{old}
	life[3].happen(t, w)
	lowered := func() {
		t.Helper()
		if hard := w.quota(t).Spec.Hard; !same(hard, base()) || len(w.ledger(t)) > 0 {
			t.Fatalf("left: hard %v, reservations %v", hard, w.ledger(t))
		}
	}
	if _, err := reconcileOnce(r); err != nil {
		t.Fatal(err)
	}
	lowered()
	w.enforce(t)
	checkWaits(t, w, r)
	w.now = w.now.Add(unseenTimeout)
	if _, err := reconcileOnce(r); err != nil {
		t.Fatal(err)
	}
	lowered()
	lag.kept = nil
	w.must(t, w.settle(t, r))
	w.clean(t)
}
