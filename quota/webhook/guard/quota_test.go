package guard_test

import (
	"errors"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mooring-vm/mooring/api/v1alpha1"
	"github.com/mooring-vm/mooring/quota"
	"github.com/mooring-vm/mooring/quota/webhook/guard"
)

func hard(pairs ...string) func(*corev1.ResourceQuota) {
	return func(q *corev1.ResourceQuota) {
		q.Spec.Hard = q.Spec.Hard.DeepCopy()
		for name, amount := range list(pairs...) {
			q.Spec.Hard[name] = amount
		}
	}
}

func annotate(key, value string) func(*corev1.ResourceQuota) {
	return func(q *corev1.ResourceQuota) { metav1.SetMetaDataAnnotation(&q.ObjectMeta, key, value) }
}

func optOut(q *corev1.ResourceQuota) {
	annotate(quota.DefaultPrefix+"skipResourceQuotaAutoScaling", "true")(q)
}

func toBase(q *corev1.ResourceQuota) {
	hard("limits.cpu", "8", "limits.memory", "16Gi", "pods", "10")(q)
}

// storedPod is the reservation of a succeeded migration whose ended source pod is still stored.
func storedPod() *v1alpha1.MigrationReservation {
	r := reservation()
	r.Status.Phase = v1alpha1.PhaseReleasing
	r.Spec.Pods[0].Charge = list("count/pods", "1")
	return r
}

// countPods limits the stored pods of a quota, which charges ended pods.
func countPods(q *corev1.ResourceQuota) {
	q.Spec.Hard["count/pods"] = resource.MustParse("10")
}

func TestQuotaEdits(t *testing.T) {
	names := []string{"ResourceQuota default", "migrate-db of VM db"}
	for name, test := range map[string]struct {
		was    *corev1.ResourceQuota
		change func(*corev1.ResourceQuota)
		ledger *v1alpha1.MigrationReservation
		why    []string
	}{
		"raised by hand while reserved": {raised(), hard("limits.cpu", "20"),
			reservation(), names},
		"lowered by hand while reserved": {raised(), hard("limits.cpu", "9"), reservation(), names},
		"a limit is taken away": {raised(), func(q *corev1.ResourceQuota) {
			toBase(q)
			delete(q.Spec.Hard, "pods")
		}, reservation(), names},
		"a limit is added": {raised(), hard("requests.cpu", "1"), reservation(), names},
		"one limit back, one more": {raised(), hard("limits.cpu", "8", "pods", "12"),
			reservation(), names},
		"manager sets it back":  {raised(), toBase, reservation(), nil},
		"manager sets one back": {raised(), hard("limits.cpu", "8"), reservation(), nil},
		"scopes with the base": {raised(), func(q *corev1.ResourceQuota) {
			toBase(q)
			q.Spec.Scopes = []corev1.ResourceQuotaScope{"BestEffort"}
		}, reservation(), names},
		"metadata alone": {raised(), annotate("example.com/a", "b"), reservation(), nil},
		"the base annotation": {raised(), annotate(quota.BaseAnnotation, "{}"), reservation(),
			[]string{quota.BaseAnnotation, "belongs to mooring-controller"}},
		"applied taken away": {raised(), func(q *corev1.ResourceQuota) {
			delete(q.Annotations, quota.AppliedAnnotation)
		}, reservation(), []string{quota.AppliedAnnotation}},
		"a retry in the future": {raised(), annotate(quota.RetryAnnotation, "2099-01-01T00:00:00Z"),
			reservation(), []string{quota.RetryAnnotation}},
		"the base annotation added": {quiet(), annotate(quota.BaseAnnotation, "{}"), nil,
			[]string{quota.BaseAnnotation}},
		"opted out": {edit(raised(), optOut), hard("limits.cpu", "20"),
			reservation(), nil},
		"opted out, below use": {edit(quiet(), optOut), hard("limits.cpu", "1"), nil,
			nil},
		"no reservation":                    {quiet(), hard("limits.cpu", "20"), nil, nil},
		"only an ended pod is reserved for": {quiet(), hard("limits.cpu", "20"), storedPod(), nil},
		"lowered, still enough":             {quiet(), hard("limits.cpu", "4"), nil, nil},
		"lowered below use": {quiet(), hard("limits.cpu", "3", "limits.memory", "7Gi"), nil,
			[]string{"limits.cpu: 3 is less than the 4",
				"limits.memory: 7Gi is less than the 8Gi"}},
		"raised below use": {edit(quiet(), hard("limits.cpu", "1")), hard("limits.cpu", "2"),
			nil, nil},
		"not charged to pods": {quiet(), hard("secrets", "1"), nil, nil},
		"broken annotation": {edit(raised(), annotate(quota.BaseAnnotation, "{")),
			annotate(quota.BaseAnnotation, ""), reservation(), nil},
	} {
		t.Run(name, func(t *testing.T) {
			objects := []client.Object{namespace(), test.was}
			if test.ledger != nil {
				objects = append(objects, test.ledger)
			}
			w := newWorld(t, objects...)
			r := ask(t, admissionv1.Update, test.was, edit(test.was, test.change))
			want(t, guard.NewQuota(w.guard).Handle(t.Context(), r), test.why...)
		})
	}
}

// TestQuotaUseOfMigrations: the use by a target pod does not prevent a lower limit.
func TestQuotaUseOfMigrations(t *testing.T) {
	target := launcher("db", "2", "4Gi")
	target.Labels["kubevirt.io/migrationJobUID"] = "m-db"
	q := edit(raised(), func(q *corev1.ResourceQuota) {
		q.Labels = map[string]string{quota.DefaultManagerLabel: "true"}
	})
	q.Status.Used = list("limits.cpu", "10", "limits.memory", "20Gi", "pods", "11")
	w := newWorld(t, namespace(), q, target, reservation())
	want(t, guard.NewQuota(w.guard).Handle(t.Context(),
		ask(t, admissionv1.Update, q, edit(q, toBase))))
}

func TestQuotaDeletion(t *testing.T) {
	for name, test := range map[string]struct {
		ns      *corev1.Namespace
		objects []client.Object
		why     []string
	}{
		"reserved": {namespace(), []client.Object{reservation()},
			[]string{"cannot be deleted", "live migration migrate-db of VM db",
				"kubectl delete vmim"}},
		"no reservation": {namespace(), nil, nil},
		"an ended pod":   {namespace(), []client.Object{storedPod()}, nil},
		"namespace ends": {ending(), []client.Object{reservation()}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, append(test.objects, test.ns, raised())...)
			want(t, guard.NewQuota(w.guard).Handle(t.Context(),
				ask(t, admissionv1.Delete, raised(), nil)), test.why...)
		})
	}
}

func TestManyMigrationsAreNotAllNamed(t *testing.T) {
	objects := []client.Object{namespace(), raised()}
	for i := range 12 {
		r := reservation()
		r.Name = "m-" + string(rune('a'+i))
		objects = append(objects, r)
	}
	w := newWorld(t, objects...)
	want(t, guard.NewQuota(w.guard).Handle(t.Context(), ask(t, admissionv1.Delete, raised(), nil)),
		"migrate-db of VM db, 2 more")
}

func TestExempt(t *testing.T) {
	for name, test := range map[string]struct {
		user   string
		groups []string
		passes bool
	}{
		"own": {own, nil, true},
		"namespace controller": {"system:serviceaccount:kube-system:namespace-controller",
			[]string{guard.KubeSystem}, true},
		"an administrator": {"kubernetes-admin", []string{"system:masters"}, false},
		"another serviceaccount": {"system:serviceaccount:vms:own",
			[]string{"system:serviceaccounts"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, namespace(), raised(), reservation())
			r := ask(t, admissionv1.Delete, raised(), nil)
			r.UserInfo.Username, r.UserInfo.Groups = test.user, test.groups
			if got := guard.NewQuota(w.guard).Handle(t.Context(), r); got.Allowed != test.passes {
				t.Errorf("allowed %t, want %t", got.Allowed, test.passes)
			}
		})
	}
}

// TestOwnFailures: a request that the guard cannot check passes with a warning.
func TestOwnFailures(t *testing.T) {
	w := newWorld(t, namespace(), raised(), reservation())
	w.breaks = errors.New("the network is down")
	got := guard.NewQuota(w.guard).Handle(t.Context(), ask(t, admissionv1.Delete, raised(), nil))
	if !got.Allowed || len(got.Warnings) != 1 ||
		!strings.Contains(got.Warnings[0], "the network is down") {
		t.Errorf("got %+v: want one warning", got)
	}
	if log := w.log.String(); !strings.Contains(log, "level=WARN") ||
		!strings.Contains(log, "the network is down") {
		t.Errorf("the log has %q", log)
	}
}

func TestRubbish(t *testing.T) {
	w := newWorld(t, namespace())
	for name, h := range w.handlers() {
		r := ask(t, admissionv1.Create, nil, nil)
		r.Object.Raw, r.OldObject.Raw = []byte("{"), []byte("{")
		if got := h.Handle(t.Context(), r); !got.Allowed || len(got.Warnings) != 1 {
			t.Errorf("%s: got %+v: want one warning", name, got)
		}
	}
}

// TestEditBesideAStoredPod edits a quota while KubeVirt keeps the ended source pod of a migration.
// It keeps the pod as long as the VM runs, so the edit must not wait for the end of the pod.
func TestEditBesideAStoredPod(t *testing.T) {
	source, target := launcher("db", "2", "4Gi"), launcher("db", "2", "4Gi")
	source.Name, source.UID, source.Status.Phase = "source", "source", corev1.PodSucceeded
	target.Labels["kubevirt.io/migrationJobUID"] = "m-db"
	ledger := storedPod()
	ledger.Spec.Source = &v1alpha1.Reference{Name: "source", UID: "source"}
	q := edit(quiet(), hard("count/pods", "3"), annotate(quota.BaseAnnotation, `{"count/pods":"2"}`),
		annotate(quota.AppliedAnnotation, `{"count/pods":"3"}`))
	q.Status.Hard = q.Spec.Hard
	q.Status.Used["count/pods"] = resource.MustParse("3")
	w := newWorld(t, namespace(), q, source, target, ledger)
	for name, test := range map[string]struct {
		change func(*corev1.ResourceQuota)
		why    []string
	}{
		"a manager resets it":           {hard("count/pods", "2"), nil},
		"a manifest with another limit": {hard("count/pods", "2", "limits.cpu", "9"), nil},
		"below the use of other pods": {hard("count/pods", "1"),
			[]string{"count/pods: 1 is less than the 2 in use"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := ask(t, admissionv1.Update, q, edit(q, test.change))
			want(t, guard.NewQuota(w.guard).Handle(t.Context(), r), test.why...)
		})
	}
}
