package uninstall

import (
	"context"
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/mooring-vm/mooring/quota"
)

const tool = "argocd-controller"

// newRaised returns a cluster with a quota of a tool that the controller has raised. Its client
// calls update for each update of the quota.
func newRaised(
	t *testing.T, update func(ctx context.Context, c client.WithWatch, o client.Object) error,
) *Cluster {
	t.Helper()
	api := fake.NewClientBuilder().WithScheme(scheme.Scheme).WithReturnManagedFields().
		WithObjects(&corev1.Namespace{ObjectMeta: named("vms")}).Build()
	q := &corev1.ResourceQuota{ObjectMeta: inVMs("default", nil),
		Spec: corev1.ResourceQuotaSpec{Hard: limits("12")}}
	if err := api.Create(t.Context(), q, client.FieldOwner(tool)); err != nil {
		t.Fatal(err)
	}
	raised := raisedQuota("default", "12", "16", "16")
	q.Annotations, q.Spec.Hard = raised.Annotations, raised.Spec.Hard
	q.Annotations[quota.OwnersAnnotation] = `{"Update":{"` + tool + `":["limits.cpu"]}}`
	if err := api.Update(t.Context(), q, client.FieldOwner(quota.FieldManager)); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{quota.FieldManager}, limitOwners(t, api)); d != "" {
		t.Fatalf("owners of the raised limit (-want +got):\n%s", d)
	}
	return &Cluster{
		Client: interceptor.NewClient(api, interceptor.Funcs{Update: func(ctx context.Context,
			c client.WithWatch, o client.Object, options ...client.UpdateOption) error {
			if err := update(ctx, c, o); err != nil {
				return err
			}
			return c.Update(ctx, o, options...)
		}}),
		Quota: quota.Options{Prefix: quota.DefaultPrefix}, Now: time.Now,
		Report: Report{Print: func(string) {}},
	}
}

// limitOwners returns the field managers with the limit.
func limitOwners(t *testing.T, api client.Client) []string {
	t.Helper()
	var out []string
	for _, e := range quotaOf(t, api).ManagedFields {
		var fields fieldpath.Set
		if err := fields.FromJSON(e.FieldsV1.GetRawReader()); err != nil {
			t.Fatal(err)
		}
		if fields.Has(fieldpath.MakePathOrDie("spec", "hard", "limits.cpu")) {
			out = append(out, e.Manager)
		}
	}
	return out
}

func quotaOf(t *testing.T, api client.Client) *corev1.ResourceQuota {
	t.Helper()
	q := &corev1.ResourceQuota{}
	if err := api.Get(t.Context(), client.ObjectKey{Namespace: "vms", Name: "default"}, q); err !=
		nil {
		t.Fatal(err)
	}
	return q
}

// checkGivenBack checks that the quota has a limit, owned by its former owners only, and no trace
// of the controller.
func checkGivenBack(t *testing.T, c *Cluster, cpu string, owners ...string) {
	t.Helper()
	q := quotaOf(t, c.Client)
	if hard := q.Spec.Hard[corev1.ResourceLimitsCPU]; hard.String() != cpu {
		t.Errorf("limits.cpu %s, want %s", hard.String(), cpu)
	}
	if d := cmp.Diff([]string{"example.com/kept"},
		slices.Sorted(maps.Keys(q.Annotations))); d != "" {
		t.Errorf("annotations (-want +got):\n%s", d)
	}
	if d := cmp.Diff(owners, limitOwners(t, c.Client)); d != "" {
		t.Errorf("owners of the limit (-want +got):\n%s", d)
	}
}

// TestOwnersGetTheirLimitsBack: a deployment tool owns its limits again, as after a migration. A
// conflict or an end between the two writes loses no owner.
func TestOwnersGetTheirLimitsBack(t *testing.T) {
	failure := errors.New("killed")
	conflict := apierrors.NewConflict(schema.GroupResource{Resource: "resourcequotas"}, "default",
		errors.New("changed"))
	for name, test := range map[string]struct{ first, second error }{
		"at once":                   {},
		"conflict at first write":   {first: conflict},
		"conflict at second write":  {second: conflict},
		"killed before both writes": {first: failure},
		"killed before second":      {second: failure},
	} {
		t.Run(name, func(t *testing.T) {
			errs := []error{test.first, test.second}
			c := newRaised(t, func(context.Context, client.WithWatch, client.Object) error {
				if len(errs) == 0 {
					return nil
				}
				err := errs[0]
				errs = errs[1:]
				return err
			})
			err := c.restoreQuotas(t.Context())
			if errors.Is(err, failure) {
				err = c.restoreQuotas(t.Context())
			}
			if err != nil {
				t.Fatal(err)
			}
			checkGivenBack(t, c, "12", tool)
		})
	}
}

// TestEditBetweenTheWrites: an edit of the restored quota stays, and its client owns the limit.
func TestEditBetweenTheWrites(t *testing.T) {
	writes := 0
	c := newRaised(t, func(ctx context.Context, api client.WithWatch, _ client.Object) error {
		if writes++; writes != 2 {
			return nil
		}
		q := quotaOf(t, api)
		q.Spec.Hard = limits("20")
		return api.Update(ctx, q, client.FieldOwner("kubectl-edit"))
	})
	if err := c.restoreQuotas(t.Context()); err != nil {
		t.Fatal(err)
	}
	checkGivenBack(t, c, "20", "kubectl-edit")
}
