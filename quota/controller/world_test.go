package controller

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/events"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/mooring-vm/mooring/api/v1alpha1"
	"github.com/mooring-vm/mooring/quota"
)

const namespaceName = "vms"

// world is a namespace with one VM in a quota with room for one launcher.
type world struct {
	api client.WithWatch
	now time.Time
}

func newWorld(t *testing.T) *world {
	t.Helper()
	return newWorldOf(t, "vm")
}

func newWorldOf(t *testing.T, vm string) *world {
	t.Helper()
	scheme, err := NewScheme()
	if err != nil {
		t.Fatal(err)
	}
	vmi := &kubevirtv1.VirtualMachineInstance{ObjectMeta: named(vm, "vmi-uid")}
	// The default field manager tracking is slow and does not support all types.
	plain := clienttesting.NewObjectTracker(scheme,
		serializer.NewCodecFactory(scheme).UniversalDecoder())
	api := fake.NewClientBuilder().WithScheme(scheme).WithObjectTracker(plain).
		WithStatusSubresource(&v1alpha1.MigrationReservation{}, &corev1.ResourceQuota{}).
		WithObjects(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespaceName,
			UID: "ns-uid"}},
			newQuota(), vmi, launcher("source", nil)).
		WithInterceptorFuncs(interceptor.Funcs{Create: createWithUID}).Build()
	w := &world{api: api, now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	w.enforce(t)
	return w
}

// createWithUID sets a UID as the API server does; the fake client does not.
func createWithUID(
	ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption,
) error {
	if o.GetUID() == "" {
		o.SetUID(types.UID("uid-of-" + o.GetName()))
	}
	return c.Create(ctx, o, opts...)
}

func named(name string, uid types.UID) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespaceName, Name: name, UID: uid}
}

func base() corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourcePods: resource.MustParse("1"),
		corev1.ResourceRequestsMemory: resource.MustParse("1Gi")}
}

func doubled() corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourcePods: resource.MustParse("2"),
		corev1.ResourceRequestsMemory: resource.MustParse("2Gi")}
}

func newQuota() *corev1.ResourceQuota {
	return &corev1.ResourceQuota{ObjectMeta: named("quota", "quota-uid"),
		Spec: corev1.ResourceQuotaSpec{Hard: base()}}
}

func launcher(name string, labels map[string]string) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: named(name, types.UID(name+"-uid"))}
	pod.Labels = map[string]string{kubevirtv1.AppLabel: "virt-launcher",
		kubevirtv1.CreatedByLabel: "vmi-uid"}
	for key, value := range labels {
		pod.Labels[key] = value
	}
	pod.Status.Phase = corev1.PodRunning
	pod.Spec.Containers = []corev1.Container{
		{Name: "compute", Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi")},
		}}}
	return pod
}

func target() *corev1.Pod {
	return launcher("target", map[string]string{kubevirtv1.MigrationJobLabel: "migration-uid"})
}

func migration(
	phase kubevirtv1.VirtualMachineInstanceMigrationPhase,
) *kubevirtv1.VirtualMachineInstanceMigration {
	m := &kubevirtv1.VirtualMachineInstanceMigration{
		ObjectMeta: named("migration", "migration-uid")}
	m.Spec.VMIName = "vm"
	m.Status.Phase = phase
	return m
}

// reconciler returns a reconciler. Its writes pass through hooks.
func (w *world) reconciler(hooks interceptor.Funcs) *Reconciler {
	return NewReconciler(Config{
		Client: interceptor.NewClient(w.api, hooks), Live: w.api,
		Events:  events.NewFakeRecorder(1000),
		Metrics: NewMetrics(prometheus.NewRegistry()), Logger: slog.New(slog.DiscardHandler),
		Now: func() time.Time { return w.now },
	})
}

func reconcileOnce(r *Reconciler) (reconcile.Result, error) {
	request := reconcile.Request{NamespacedName: types.NamespacedName{Name: namespaceName}}
	return r.Reconcile(context.Background(), request)
}

// settle reconciles, and updates status.hard, until there is no more work.
func (w *world) settle(t *testing.T, r *Reconciler) error {
	t.Helper()
	for range 20 {
		before := w.version(t)
		if _, err := reconcileOnce(r); err != nil {
			return err
		}
		w.enforce(t)
		if w.version(t) == before {
			return nil
		}
	}
	t.Fatal("there is no end of it")
	return nil
}

// version changes with every write to quota and ledger.
func (w *world) version(t *testing.T) string {
	t.Helper()
	version := w.quota(t).ResourceVersion
	for _, r := range w.ledger(t) {
		version += " " + r.Name + ":" + r.ResourceVersion
	}
	return version
}

func (w *world) quota(t *testing.T) *corev1.ResourceQuota {
	t.Helper()
	q := &corev1.ResourceQuota{}
	w.must(t, w.api.Get(t.Context(), client.ObjectKey{Namespace: namespaceName, Name: "quota"}, q))
	return q
}

func (w *world) ledger(t *testing.T) []v1alpha1.MigrationReservation {
	t.Helper()
	all := &v1alpha1.MigrationReservationList{}
	w.must(t, w.api.List(t.Context(), all, client.InNamespace(namespaceName)))
	return all.Items
}

// enforce acts as kube-controller-manager's quota controller.
func (w *world) enforce(t *testing.T) {
	t.Helper()
	q := w.quota(t)
	if same(q.Status.Hard, q.Spec.Hard) {
		return
	}
	q.Status.Hard = q.Spec.Hard
	w.must(t, w.api.Status().Update(t.Context(), q))
}

func (w *world) create(t *testing.T, o client.Object) {
	t.Helper()
	w.must(t, w.api.Create(t.Context(), o))
}

func (w *world) remove(t *testing.T, o client.Object) {
	t.Helper()
	w.must(t, w.api.Delete(t.Context(), o))
}

func (w *world) toPhase(t *testing.T, phase kubevirtv1.VirtualMachineInstanceMigrationPhase) {
	t.Helper()
	m := migration("")
	w.must(t, w.api.Get(t.Context(), client.ObjectKeyFromObject(m), m))
	m.Status.Phase = phase
	w.must(t, w.api.Update(t.Context(), m))
}

func (w *world) must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// check fails t unless hard is at least the base, and annotated if above it.
func (w *world) check(t *testing.T) {
	t.Helper()
	q := w.quota(t)
	for name, least := range base() {
		if hard := q.Spec.Hard[name]; hard.Cmp(least) < 0 {
			t.Fatalf("%s is %s, below the base", name, hard.String())
		}
	}
	if !same(q.Spec.Hard, base()) && q.Annotations[quota.BaseAnnotation] == "" {
		t.Fatalf("hard is %v, without a base annotation", q.Spec.Hard)
	}
}

// checkLedgerFirst fails t if the quota is raised without a reservation.
func (w *world) checkLedgerFirst(t *testing.T) {
	t.Helper()
	if !same(w.quota(t).Spec.Hard, base()) && len(w.ledger(t)) == 0 {
		t.Fatal("the quota is raised, and nothing is reserved")
	}
}

// clean fails t if a migration left anything behind.
func (w *world) clean(t *testing.T) {
	t.Helper()
	q := w.quota(t)
	if !same(q.Spec.Hard, base()) || len(q.Annotations) > 0 || len(w.ledger(t)) > 0 {
		t.Fatalf("left: hard %v, annotations %v, reservations %v", q.Spec.Hard, q.Annotations,
			w.ledger(t))
	}
}

func same(a, b corev1.ResourceList) bool {
	if len(a) != len(b) {
		return false
	}
	for name, q := range a {
		if other, ok := b[name]; !ok || q.Cmp(other) != 0 {
			return false
		}
	}
	return true
}
