package controller

import (
	"context"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/mooring-vm/mooring/api/v1alpha1"
	"github.com/mooring-vm/mooring/quota"
)

// observer returns a reconciler in mode observe, and its Events.
func (w *world) observer(hooks interceptor.Funcs) (*Reconciler, func() []string) {
	r := w.reconciler(hooks)
	r.Options.Observe = true
	return r, func() (all []string) {
		for recorder := r.Events.(*events.FakeRecorder); len(recorder.Events) > 0; {
			all = append(all, <-recorder.Events)
		}
		return all
	}
}

// ownKindsOnly fails t at each write to an object other than a reservation.
func ownKindsOnly(t *testing.T) interceptor.Funcs {
	check := func(o client.Object) {
		if _, ok := o.(*v1alpha1.MigrationReservation); !ok {
			t.Errorf("mode observe writes %T %s", o, o.GetName())
		}
	}
	return interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch,
			opts ...client.PatchOption,
		) error {
			check(o)
			return c.Patch(ctx, o, p, opts...)
		},
		Update: func(ctx context.Context, c client.WithWatch, o client.Object,
			opts ...client.UpdateOption,
		) error {
			check(o)
			return c.Update(ctx, o, opts...)
		},
	}
}

func containing(all []string, parts ...string) bool {
	return slices.ContainsFunc(all, func(one string) bool {
		return !slices.ContainsFunc(parts, func(part string) bool {
			return !strings.Contains(one, part)
		})
	})
}

// A migration in a full quota raises the quota in mode enforce. In mode observe the controller
// writes only its own reservation, and reports once.
func TestObserveRaisesNoQuota(t *testing.T) {
	w := newWorld(t)
	w.create(t, migration(kubevirtv1.MigrationPending))
	before := w.quota(t)
	r, reported := w.observer(ownKindsOnly(t))
	w.must(t, w.settle(t, r))
	if now := w.quota(t); now.ResourceVersion != before.ResourceVersion {
		t.Errorf("the quota changed: %v", now)
	}
	ledger := w.ledger(t)
	if len(ledger) != 1 || len(ledger[0].Finalizers) > 0 {
		t.Fatalf("reservations %+v, want one without a finalizer", ledger)
	}
	if c := meta.FindStatusCondition(ledger[0].Status.Conditions,
		v1alpha1.ConditionGranted); c == nil || c.Reason != "ObserveMode" {
		t.Errorf("condition %+v, want the reason ObserveMode", c)
	}
	all := reported()
	if !containing(all, quota.ReasonWouldReserve, "observe mode, nothing is done") ||
		!containing(all, ReasonWouldScale, "requests.memory from 1Gi to 2Gi", "pods from 1 to 2") {
		t.Errorf("Events %q", all)
	}
	w.must(t, w.settle(t, r))
	if again := reported(); len(again) > 0 {
		t.Errorf("reported again: %q", again)
	}

	// Mode enforce continues with the same reservation.
	w.must(t, w.settle(t, w.reconciler(interceptor.Funcs{})))
	if got := w.quota(t).Spec.Hard; !same(got, doubled()) {
		t.Errorf("mode enforce set %v, and mode observe predicted %v", got, doubled())
	}
	if got := w.ledger(t); len(got) != 1 || got[0].UID != ledger[0].UID ||
		len(got[0].Finalizers) != 1 {
		t.Errorf("reservations %+v", got)
	}
}

// Releasing deletes the reservation, and reports that the quota would go back.
func TestObserveReleases(t *testing.T) {
	w := newWorld(t)
	w.create(t, migration(kubevirtv1.MigrationPending))
	r, reported := w.observer(ownKindsOnly(t))
	w.must(t, w.settle(t, r))
	reported()
	w.toPhase(t, kubevirtv1.MigrationFailed)
	w.must(t, w.settle(t, r))
	if all := reported(); !containing(all, quota.ReasonWouldRelease) ||
		!containing(all, ReasonWouldScale, "would set spec.hard back") {
		t.Errorf("Events %q", all)
	}
	w.clean(t)
}

// A quota raised in mode enforce stays as it is in mode observe, and mode enforce lowers it.
func TestObserveLowersNoQuota(t *testing.T) {
	w := migrating(t)
	w.toPhase(t, kubevirtv1.MigrationFailed)
	r, reported := w.observer(ownKindsOnly(t))
	w.must(t, w.settle(t, r))
	if got := w.quota(t).Spec.Hard; !same(got, doubled()) {
		t.Errorf("mode observe set %v", got)
	}
	if all := reported(); !containing(all, ReasonWouldScale, "from 2Gi to 1Gi") {
		t.Errorf("Events %q", all)
	}
	w.must(t, w.settle(t, w.reconciler(interceptor.Funcs{})))
	w.clean(t)
}

// The Halter reports once, and leaves the VM alone.
func TestObserveHaltsNoVM(t *testing.T) {
	w := migrating(t)
	vm, vmi := rejectedVM(nil)
	w.create(t, vm)
	w.create(t, vmi)
	r, reported := w.observer(ownKindsOnly(t))
	h := NewHalter(r)
	for range 4 {
		result, err := h.Reconcile(t.Context(), reconcile.Request{
			NamespacedName: types.NamespacedName{Namespace: namespaceName, Name: "late"}})
		w.must(t, err)
		w.now = w.now.Add(result.RequeueAfter)
	}
	w.must(t, w.api.Get(t.Context(), client.ObjectKeyFromObject(vm), vm))
	if *vm.Spec.RunStrategy != kubevirtv1.RunStrategyAlways || len(vm.Annotations) > 0 {
		t.Errorf("the VM changed: %+v", vm)
	}
	all := reported()
	if len(all) != 1 || !containing(all, corev1.EventTypeWarning, ReasonWouldHalt,
		"observe mode, nothing is done: would halt") {
		t.Errorf("Events %q, want one", all)
	}
}
