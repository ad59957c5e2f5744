package controller

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/mooring-vm/mooring/api/v1alpha1"
	"github.com/mooring-vm/mooring/quota/controller/controllertest"
)

// newWorldOfManifests is newWorld with managedFields and with a quota without limits.
func newWorldOfManifests(t *testing.T) *world {
	t.Helper()
	scheme, err := NewScheme()
	if err != nil {
		t.Fatal(err)
	}
	vmi := &kubevirtv1.VirtualMachineInstance{ObjectMeta: named("vm", "vmi-uid")}
	api := fake.NewClientBuilder().WithScheme(scheme).WithReturnManagedFields().
		WithStatusSubresource(&v1alpha1.MigrationReservation{}, &corev1.ResourceQuota{}).
		WithObjects(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespaceName,
			UID: "ns-uid"}}, &corev1.ResourceQuota{ObjectMeta: named("quota", "quota-uid")}, vmi,
			launcher("source", nil)).
		WithInterceptorFuncs(interceptor.Funcs{Create: createWithUID}).Build()
	return &world{api: api, now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
}

// apply applies a manifest of the quota on the server's side.
func (w *world) apply(
	t *testing.T, manager string, hard corev1.ResourceList, options ...client.ApplyOption,
) error {
	t.Helper()
	o := &unstructured.Unstructured{Object: map[string]any{}}
	o.SetAPIVersion("v1")
	o.SetKind("ResourceQuota")
	o.SetNamespace(namespaceName)
	o.SetName("quota")
	limits := map[string]any{}
	for name, q := range hard {
		limits[string(name)] = q.String()
	}
	o.Object["spec"] = map[string]any{"hard": limits}
	return w.api.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(o),
		append(options, client.FieldOwner(manager))...)
}

// owners returns the limits of each field manager.
func (w *world) owners(t *testing.T) map[string][]corev1.ResourceName {
	t.Helper()
	q, out := w.quota(t), map[string][]corev1.ResourceName{}
	for _, e := range q.ManagedFields {
		var fields fieldpath.Set
		w.must(t, fields.FromJSON(e.FieldsV1.GetRawReader()))
		for _, name := range slices.Sorted(maps.Keys(q.Spec.Hard)) {
			if fields.Has(fieldpath.MakePathOrDie("spec", "hard", string(name))) {
				out[e.Manager] = append(out[e.Manager], name)
			}
		}
	}
	return out
}

// checkGivenBack fails t unless a tool owns all limits and can change them: remove one, and set
// another one.
func (w *world) checkGivenBack(t *testing.T, tool string) {
	t.Helper()
	want := map[string][]corev1.ResourceName{tool: slices.Sorted(maps.Keys(base()))}
	if d := cmp.Diff(want, w.owners(t)); d != "" {
		t.Errorf("owners of limits (-want +got):\n%s", d)
	}
	edited := corev1.ResourceList{corev1.ResourcePods: resource.MustParse("7")}
	if err := w.apply(t, tool, edited); err != nil {
		t.Errorf("applying another manifest: %v", err)
	}
	if hard := w.quota(t).Spec.Hard; !same(hard, edited) {
		t.Errorf("hard is %v, want the manifest's %v", hard, edited)
	}
}

// TestGitOps applies the manifest of a quota after each step of a migration. The controller raises
// the quota again, and gives the limits back at the end.
func TestGitOps(t *testing.T) {
	for tool, forces := range map[string]bool{"argocd-controller": true, "kubectl": false} {
		for name, life := range lives() {
			t.Run(tool+", "+name, func(t *testing.T) {
				w := newWorldOfManifests(t)
				w.must(t, w.apply(t, tool, base()))
				w.enforce(t)
				r := w.reconciler(interceptor.Funcs{})
				for _, s := range life {
					s.happen(t, w)
					w.must(t, w.settle(t, r))
					w.checkSync(t, tool, forces)
					w.must(t, w.settle(t, r))
					w.check(t)
					s.want(t, w)
				}
				w.checkGivenBack(t, tool)
			})
		}
	}
}

// checkSync applies the manifest. Without force this fails while the quota is raised.
func (w *world) checkSync(t *testing.T, tool string, forces bool) {
	t.Helper()
	if forces {
		w.must(t, w.apply(t, tool, base(), client.ForceOwnership))
		w.enforce(t)
		return
	}
	raised := !same(w.quota(t).Spec.Hard, base())
	err := w.apply(t, tool, base())
	if conflict := apierrors.IsConflict(err); conflict != raised {
		t.Errorf("applied: %v, and the quota is raised: %t", err, raised)
	}
	if raised && !strings.Contains(err.Error(), "mooring-controller") {
		t.Errorf("%v: want the controller's name in it", err)
	}
}

// TestOwnersSurviveKills kills the controller at each of its writes. Its successor gives the limits
// back all the same, and the manifest may be applied in between.
func TestOwnersSurviveKills(t *testing.T) {
	for _, lost := range []bool{false, true} {
		for _, syncs := range []bool{false, true} {
			writes := 0
			for killedBesideManifest(t, writes, lost, syncs) {
				writes++
			}
			if writes < 5 {
				t.Errorf("killed at %d writes only", writes)
			}
		}
	}
}

func killedBesideManifest(t *testing.T, n int, lost, syncs bool) (killed bool) {
	t.Run(fmt.Sprintf("%d/lost=%t/syncs=%t", n, lost, syncs), func(t *testing.T) {
		const tool = "kustomize-controller"
		w := newWorldOfManifests(t)
		w.must(t, w.apply(t, tool, base()))
		w.enforce(t)
		k := &controllertest.Killer{Writes: n, AnswerLost: lost}
		r := w.reconciler(k.Hooks())
		settle := func() {
			err := w.settle(t, r)
			if errors.Is(err, controllertest.ErrKilled) {
				r = w.reconciler(interceptor.Funcs{})
				err = w.settle(t, r)
			}
			w.must(t, err)
		}
		for _, s := range lives()["succeeded"] {
			s.happen(t, w)
			settle()
			if syncs {
				w.must(t, w.apply(t, tool, base(), client.ForceOwnership))
				settle()
			}
			s.want(t, w)
		}
		w.checkGivenBack(t, tool)
		killed = k.Killed()
	})
	return killed
}

// TestAppliedBeforeWrite has a second tool apply equal limits between the controller's read and
// each of its writes of the quota. The tool owns them, too, after the migration.
func TestAppliedBeforeWrite(t *testing.T) {
	writes := 0
	for appliedBeforeWrite(t, writes) {
		writes++
	}
	if writes < 3 {
		t.Errorf("applied before %d writes only", writes)
	}
}

func appliedBeforeWrite(t *testing.T, n int) (applied bool) {
	t.Run(strconv.Itoa(n), func(t *testing.T) {
		w := newWorldOfManifests(t)
		w.must(t, w.apply(t, "kubectl", base()))
		w.enforce(t)
		writes := 0
		r := w.reconciler(w.beforeQuotaWrites(func() {
			if writes++; writes == n+1 {
				applied = true
				w.must(t, w.apply(t, "argocd-controller", w.quota(t).Spec.Hard,
					client.ForceOwnership))
			}
		}))
		for _, s := range lives()["succeeded"] {
			s.happen(t, w)
			err := w.settle(t, r)
			if err != nil && applied { // the fake has an error of its own for a conflict
				err = w.settle(t, r)
			}
			w.must(t, err)
			s.want(t, w)
		}
		limits := slices.Sorted(maps.Keys(base()))
		want := map[string][]corev1.ResourceName{"kubectl": limits}
		if applied {
			want["argocd-controller"] = limits
		}
		if d := cmp.Diff(want, w.owners(t)); d != "" {
			t.Errorf("owners of limits (-want +got):\n%s", d)
		}
	})
	return applied
}

// beforeQuotaWrites calls do before each write of a quota.
func (w *world) beforeQuotaWrites(do func()) interceptor.Funcs {
	return interceptor.Funcs{Patch: func(ctx context.Context, c client.WithWatch, o client.Object,
		p client.Patch, opts ...client.PatchOption) error {
		if _, ok := o.(*corev1.ResourceQuota); ok {
			do()
		}
		return c.Patch(ctx, o, p, opts...)
	}}
}

// TestBusyStatus updates the status of a quota before each write, as the API server does with each
// new pod. No raise fails because of that.
func TestBusyStatus(t *testing.T) {
	w := newWorldOfManifests(t)
	w.must(t, w.apply(t, "kubectl", base()))
	w.enforce(t)
	updates := int64(0)
	r := w.reconciler(w.beforeQuotaWrites(func() {
		updates++
		q := w.quota(t)
		q.Status.Used = corev1.ResourceList{"services": *resource.NewQuantity(updates,
			resource.DecimalSI)}
		w.must(t, w.api.Status().Update(t.Context(), q))
	}))
	for _, s := range lives()["succeeded"][:2] {
		s.happen(t, w)
		w.must(t, w.settle(t, r))
		s.want(t, w)
	}
	if updates == 0 {
		t.Error("no update before a write")
	}
	checkEconomy(t, r)
}

// TestLimitRemovedMeanwhile removes a limit from the manifest during a migration. The tool does not
// own the limit then, so it stays. After the migration the next sync removes it.
func TestLimitRemovedMeanwhile(t *testing.T) {
	const tool = "argocd-controller"
	w := newWorldOfManifests(t)
	w.must(t, w.apply(t, tool, base()))
	w.enforce(t)
	r := w.reconciler(interceptor.Funcs{})
	edited := base()
	delete(edited, corev1.ResourcePods)
	for _, s := range lives()["succeeded"] {
		s.happen(t, w)
		w.must(t, w.settle(t, r))
		if s.name == "pending" {
			w.must(t, w.apply(t, tool, edited, client.ForceOwnership))
			w.must(t, w.settle(t, r))
		}
		s.want(t, w)
	}
	w.must(t, w.apply(t, tool, edited))
	if hard := w.quota(t).Spec.Hard; !same(hard, edited) {
		t.Errorf("hard is %v, want the manifest's %v", hard, edited)
	}
}
