package controller

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/mooring-vm/mooring/api/v1alpha1"
)

// lagging is a stale cache: it lists old quotas and reservations.
type lagging struct{ kept []client.ObjectList }

func (l *lagging) stand(t *testing.T, w *world) {
	t.Helper()
	l.kept = []client.ObjectList{&corev1.ResourceQuotaList{}, &v1alpha1.MigrationReservationList{}}
	for _, list := range l.kept {
		w.must(t, w.api.List(t.Context(), list, client.InNamespace(namespaceName)))
	}
}

func (l *lagging) hooks() interceptor.Funcs {
	return interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch,
		to client.ObjectList, opts ...client.ListOption) error {
		for _, list := range l.kept {
			if schemeKind(list) == schemeKind(to) {
				items, err := meta.ExtractList(list)
				return errors.Join(err, meta.SetList(to, items))
			}
		}
		return c.List(ctx, to, opts...)
	}}
}

func schemeKind(o runtime.Object) string {
	switch o.(type) {
	case *corev1.ResourceQuotaList:
		return "quotas"
	case *v1alpha1.MigrationReservationList:
		return "reservations"
	}
	return ""
}

// The controller does not plan from a cache without its own writes. After a timeout it reads from
// the API server.
func TestOwnWritesAreWaitedFor(t *testing.T) {
	for n, name := range []string{"reserved", "charged", "releasing", "released"} {
		t.Run(name, func(t *testing.T) {
			w, lag := newWorld(t), &lagging{}
			r := w.reconciler(lag.hooks())
			life := lives()["succeeded"]
			for _, s := range life[:n] {
				s.happen(t, w)
				w.must(t, w.settle(t, r))
			}
			lag.stand(t, w)
			life[n].happen(t, w)
			if _, err := reconcileOnce(r); err != nil {
				t.Fatal(err)
			}
			w.enforce(t)
			checkWaits(t, w, r)
			w.now = w.now.Add(unseenTimeout)
			before := calls(r)
			if _, err := reconcileOnce(r); err != nil {
				t.Fatal(err)
			}
			if calls(r) == before {
				t.Error("it does not continue from the API server")
			}
		})
	}
}

func checkWaits(t *testing.T, w *world, r *Reconciler) {
	t.Helper()
	written, before := w.version(t), calls(r)
	result, err := reconcileOnce(r)
	if err != nil || result.RequeueAfter <= 0 {
		t.Fatalf("got %v, %v; want a wait", result, err)
	}
	if w.version(t) != written || calls(r) != before {
		t.Error("it planned from a stale cache")
	}
}

// calls counts writes, successful or not, and reads from the API server.
func calls(r *Reconciler) float64 {
	n := 0.0
	for _, k := range []kind{kindReservation, kindStatus, kindQuota, kindNamespace} {
		for _, outcome := range []string{outcomeDone, outcomeConflict, outcomeFailed} {
			n += testutil.ToFloat64(r.Metrics.writes.WithLabelValues(string(k), outcome))
		}
	}
	for _, at := range []string{readLedger, readLive} {
		n += testutil.ToFloat64(r.Metrics.reads.WithLabelValues(at))
	}
	return n
}

// A conflict leads to an immediate new plan from stored objects, and to no error.
func TestConflict(t *testing.T) {
	conflict := apierrors.NewConflict(schema.GroupResource{Resource: "resourcequotas"}, "quota",
		errors.New("changed"))
	refuse := true
	w := newWorld(t)
	r := w.reconciler(interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch,
			opts ...client.PatchOption) error {
			if refuse {
				return conflict
			}
			return c.Patch(ctx, o, p, opts...)
		},
	})
	w.create(t, migration(kubevirtv1.MigrationPending))
	var before time.Duration
	for range 12 {
		result, err := reconcileOnce(r)
		if err != nil {
			t.Fatal(err)
		}
		if result.RequeueAfter < before || result.RequeueAfter == 0 ||
			result.RequeueAfter > maxConflictDelay {
			t.Fatalf("waits %s after %s", result.RequeueAfter, before)
		}
		before = result.RequeueAfter
	}
	refuse = false
	if err := w.settle(t, r); err != nil {
		t.Fatal(err)
	}
	reserved(v1alpha1.PhaseGranted)(t, w)
}

// The controller does not overwrite an edit between its read and its write.
func TestEditBetweenReadAndWrite(t *testing.T) {
	edit := true
	w := newWorld(t)
	edited := doubled()
	edited[corev1.ResourcePods] = resource.MustParse("7")
	r := w.reconciler(interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch,
			opts ...client.PatchOption) error {
			if edit {
				edit = false
				q := w.quota(t)
				q.Spec.Hard = edited
				w.must(t, c.Update(ctx, q))
			}
			return c.Patch(ctx, o, p, opts...)
		},
	})
	w.create(t, migration(kubevirtv1.MigrationPending))
	if _, err := reconcileOnce(r); err == nil {
		t.Fatal("the edit was not noticed") // the fake has an error of its own for it
	}
	if err := w.settle(t, r); err != nil {
		t.Fatal(err)
	}
	want := corev1.ResourceList{corev1.ResourcePods: resource.MustParse("8"),
		corev1.ResourceRequestsMemory: resource.MustParse("3Gi")}
	if hard := w.quota(t).Spec.Hard; !same(hard, want) {
		t.Errorf("hard is %v, want %v", hard, want)
	}
}

func TestStale(t *testing.T) {
	of := schema.GroupResource{Resource: "resourcequotas"}
	invalid := apierrors.NewInvalid(schema.GroupKind{Kind: "ResourceQuota"}, "quota", nil)
	invalid.ErrStatus.Details.Causes = append(invalid.ErrStatus.Details.Causes, causeOfHard())
	tests := map[string]struct {
		err  error
		want bool
	}{
		"nothing":  {nil, false},
		"conflict": {apierrors.NewConflict(of, "quota", errors.New("changed")), true},
		"gone":     {apierrors.NewNotFound(of, "quota"), true},
		"there":    {apierrors.NewAlreadyExists(of, "quota"), true},
		"a test failed": {apierrors.NewGenericServerResponse(422, "", schema.GroupResource{}, "",
			"test failed", 0, false), true},
		"an invalid one":  {invalid, false},
		"forbidden":       {apierrors.NewForbidden(of, "quota", errors.New("no")), false},
		"any other error": {errors.New("no route to host"), false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := stale(tt.err); got != tt.want {
				t.Errorf("got %t for %v", got, tt.err)
			}
		})
	}
}

// The controller forgets a deleted namespace and its reported states.
func TestNamespaceGone(t *testing.T) {
	w := newWorld(t)
	r := w.reconciler(interceptor.Funcs{})
	if _, err := reconcileOnce(r); err != nil {
		t.Fatal(err)
	}
	ns := &corev1.Namespace{}
	ns.Name = namespaceName
	w.remove(t, ns)
	if _, err := reconcileOnce(r); err != nil {
		t.Fatal(err)
	}
	if len(r.namespaces.all) != 0 {
		t.Errorf("it remembers %v", r.namespaces.all)
	}
}
