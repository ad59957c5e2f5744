package guard_test

import (
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mooring-vm/mooring/api/v1alpha1"
	"github.com/mooring-vm/mooring/quota"
	"github.com/mooring-vm/mooring/quota/webhook/guard"
)

const (
	manager   = quota.DefaultManagerAnnotation
	managed16 = `{"limit":{"limitsCpu":"8000m","limitsMemory":"16Gi"}}`
	shareKey  = quota.DefaultPrefix + "maintenanceQuota"
)

// managed is a quota under a quota manager.
func managed(q *corev1.ResourceQuota) {
	q.Labels = map[string]string{quota.DefaultManagerLabel: "true"}
}

func TestManagerAnnotation(t *testing.T) {
	busy := []string{manager, "namespace vms", "migrate-db of VM db"}
	for name, test := range map[string]struct {
		quota   *corev1.ResourceQuota
		was, is string
		ledger  *v1alpha1.MigrationReservation
		why     []string
	}{
		"changed while reserved": {edit(raised(), managed), managed16,
			`{"limit":{"limitsCpu":"9000m"}}`, reservation(), busy},
		"removed while reserved":    {edit(raised(), managed), managed16, "", reservation(), busy},
		"unreadable while reserved": {edit(raised(), managed), managed16, "{", reservation(), busy},
		"written another way": {edit(raised(), managed), managed16,
			`{"limit": {"limitsCpu": "8", "limitsMemory": "16384Mi"}, "used": {}}`, reservation(), nil},
		"of no quota that is managed": {raised(), managed16, "", reservation(), nil},
		"opted out": {edit(edit(raised(), managed), optOut), managed16,
			"", reservation(), nil},
		"removed": {edit(quiet(), managed), managed16, "", nil, nil},
		"changed": {edit(quiet(), managed), managed16, `{"limit":{"limitsCpu":"5"}}`,
			nil, nil},
		"below use": {edit(quiet(), managed), managed16, `{"limit":{"limitsCpu":"3"}}`,
			nil, []string{"limits.cpu: 3 is less than the 4", "ResourceQuota default"}},
		"opted out, below use": {edit(edit(quiet(), managed), optOut), managed16,
			`{"limit":{"limitsCpu":"3"}}`, nil, nil},
		"only an ended pod is reserved for": {edit(quiet(), managed, countPods), managed16,
			`{"limit":{"limitsCpu":"12"}}`, storedPod(), nil},
		"below use, and an ended pod": {edit(quiet(), managed, countPods), managed16,
			`{"limit":{"limitsCpu":"3"}}`, storedPod(),
			[]string{"limits.cpu: 3 is less than the 4"}},
	} {
		t.Run(name, func(t *testing.T) {
			objects := []client.Object{namespace(manager, test.was), test.quota}
			if test.ledger != nil {
				objects = append(objects, test.ledger)
			}
			w := newWorld(t, objects...)
			is := namespace()
			if test.is != "" {
				is = namespace(manager, test.is)
			}
			r := ask(t, admissionv1.Update, namespace(manager, test.was), is)
			want(t, guard.NewNamespace(w.guard).Handle(t.Context(), r), test.why...)
		})
	}
}

func TestShareAnnotation(t *testing.T) {
	const half = `{"limitsCpuPercent":50}`
	for name, test := range map[string]struct {
		key, was, is string
		ledger       *v1alpha1.MigrationReservation
		why          []string
	}{
		"set": {shareKey, "", half, nil, nil},
		"set while reserved": {shareKey, "", half, reservation(),
			[]string{"share of namespace vms", "migrate-db of VM db"}},
		"taken away while reserved": {shareKey, half, "", reservation(),
			[]string{"share of namespace vms"}},
		"ours, while reserved": {quota.MaintenanceAnnotation, half, `{"limitsCpuPercent":60}`,
			reservation(), []string{"share of namespace vms"}},
		"written another way": {shareKey, half, `{"limit":{"limitsCpuPercent":"50"}}`,
			reservation(), nil},
		"only an ended pod is reserved for": {shareKey, "", half, storedPod(), nil},
		"too much": {shareKey, "", `{"limitsCpuPercent":101}`, nil,
			[]string{"namespace vms", shareKey, "from 0 to 100"}},
		"no JSON": {quota.MaintenanceAnnotation, half, "half", nil,
			[]string{quota.MaintenanceAnnotation, "want JSON"}},
		"from an invalid share": {shareKey, "half", half, reservation(), nil},
		"invalid share stays":   {shareKey, "half", "half", reservation(), nil},
	} {
		t.Run(name, func(t *testing.T) {
			objects := []client.Object{namespace(), raised()}
			if test.ledger != nil {
				objects = append(objects, test.ledger)
			}
			w := newWorld(t, objects...)
			r := ask(t, admissionv1.Update, namespace(test.key, test.was),
				namespace(test.key, test.is))
			want(t, guard.NewNamespace(w.guard).Handle(t.Context(), r), test.why...)
		})
	}
}

// TestShareThatIsTooLarge: a share leaves VMs at least their use. The quota has 8 CPUs and 16Gi,
// half of them in use by VMs.
func TestShareThatIsTooLarge(t *testing.T) {
	scoped := func(q *corev1.ResourceQuota) {
		q.Spec.Scopes = []corev1.ResourceQuotaScope{corev1.ResourceQuotaScopeTerminating}
	}
	tooLarge := []string{"share of namespace vms", "ResourceQuota default: limits.cpu: 3920m is " +
		"less than the 4 in use", "limits.memory: 4Gi is less than the 8Gi"}
	for name, test := range map[string]struct {
		quota   *corev1.ResourceQuota
		was, is *corev1.Namespace
		why     []string
	}{
		"as much as is used": {quiet(), namespace(),
			namespace(shareKey, `{"limitsCpuPercent":50,"limitsMemoryPercent":50}`), nil},
		"more": {quiet(), namespace(),
			namespace(shareKey, `{"limitsCpuPercent":51,"limitsMemoryPercent":75}`), tooLarge},
		"of memory alone": {quiet(), namespace(shareKey, `{"limitsCpuPercent":60}`),
			namespace(shareKey, `{"limitsCpuPercent":60,"limitsMemoryPercent":75}`), tooLarge[2:]},
		"less, and still much": {quiet(), namespace(shareKey, `{"limitsCpuPercent":90}`),
			namespace(shareKey, `{"limitsCpuPercent":80}`), nil},
		"taken away": {quiet(), namespace(shareKey, `{"limitsCpuPercent":90}`),
			namespace(), nil},
		"opted out": {edit(quiet(), optOut), namespace(),
			namespace(shareKey, `{"limitsCpuPercent":90}`), nil},
		"of no VMs' quota": {edit(quiet(), scoped), namespace(),
			namespace(shareKey, `{"limitsCpuPercent":90}`), nil},
		"with a larger base": {edit(quiet(), managed), namespace(manager, managed16),
			namespace(manager, `{"limit":{"limitsCpu":"16","limitsMemory":"16Gi"}}`, shareKey,
				`{"limitsCpuPercent":75}`), nil},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, test.was, test.quota)
			want(t, guard.NewNamespace(w.guard).Handle(t.Context(),
				ask(t, admissionv1.Update, test.was, test.is)), test.why...)
		})
	}
}

// TestNamespacesThatEnd: a namespace in deletion passes.
func TestNamespacesThatEnd(t *testing.T) {
	w := newWorld(t, ending(), edit(raised(), managed), reservation())
	was, is := namespace(manager, managed16), ending()
	is.Annotations = map[string]string{shareKey: "rubbish"}
	want(t, guard.NewNamespace(w.guard).Handle(t.Context(), ask(t, admissionv1.Update, was, is)))
}

// TestOtherNamespaces: an unrelated edit causes no read.
func TestOtherNamespaces(t *testing.T) {
	w := newWorld(t) // without a namespace to read
	is := namespace(manager, managed16)
	metav1.SetMetaDataAnnotation(&is.ObjectMeta, "example.com/a", "b")
	want(t, guard.NewNamespace(w.guard).Handle(t.Context(),
		ask(t, admissionv1.Update, namespace(manager, managed16), is)))
}

// TestOwnNames: a configured manager and prefix replace the defaults.
func TestOwnNames(t *testing.T) {
	w := newWorld(t, namespace("a.example/quota", managed16),
		edit(raised(), func(q *corev1.ResourceQuota) {
			q.Labels = map[string]string{"a.example/managed": "true"}
		}), reservation())
	w.guard.Quota = quota.Options{Prefix: "b.example/", ManagerAnnotation: "a.example/quota",
		ManagerLabel: "a.example/managed"}
	h := guard.NewNamespace(w.guard)
	want(t,
		h.Handle(t.Context(), ask(t, admissionv1.Update, namespace("a.example/quota", managed16),
			namespace())), "a.example/quota")
	want(t,
		h.Handle(t.Context(), ask(t, admissionv1.Update, namespace(),
			namespace("b.example/maintenanceQuota", "?"))), "b.example/maintenanceQuota")
	want(t, h.Handle(t.Context(), ask(t, admissionv1.Update, namespace(manager, managed16),
		namespace())))
}
