package quota

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	virtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/mooring-vm/mooring/api/v1alpha1"
	"github.com/mooring-vm/mooring/integration/controllerprogram"
	kubevirttest "github.com/mooring-vm/mooring/integration/kubevirt"
)

// TestAppliedMeanwhile has a second tool apply the limits of a quota between the controller's read
// and its raise. Both tools own the limits after the migration. Another write changes the status
// before each raise, and no raise fails because of that.
func TestAppliedMeanwhile(t *testing.T) {
	c := kubevirttest.Start(t)
	install(t, c, controllerprogram.Name)
	m := &manifest{namespace: c.Namespace(t, nil), hard: full()}
	wantPass(t, kubectl().sync(t.Context(), c, m))
	awaitHard(t, c, m.namespace, kubevirttest.QuotaName, m.hard)
	vmi := c.RunningVMI(t, m.namespace, "vm", small())

	writes := 0
	l := &controllerRun{c: c, api: asController(t, c), space: m.namespace}
	l.reconciler = l.controller(interceptor.Funcs{Patch: func(ctx context.Context,
		api client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
		if _, ok := o.(*corev1.ResourceQuota); !ok {
			return api.Patch(ctx, o, p, opts...)
		}
		if writes++; writes == 1 {
			wantPass(t, m.apply(ctx, c, "argocd-controller", forced))
		} else if writes == 2 {
			touchStatus(t, c, m.namespace)
		}
		err := api.Patch(ctx, o, p, opts...)
		if failed := err != nil; writes <= 2 && failed != (writes == 1) {
			t.Errorf("write %d: %v", writes, err)
		}
		return err
	}})
	migration := c.MigrateUntil(t, vmi, virtv1.MigrationPreparingTarget)
	l.awaitPhase(t, v1alpha1.PhaseCharged)
	migration.GoOn(t)
	migration.Await(t, virtv1.MigrationSucceeded)
	limits := ownersOf(quotaOf(t, c, m.namespace, kubevirttest.QuotaName))["mooring-controller"]
	want := map[string][]corev1.ResourceName{"kubectl": limits, "argocd-controller": limits}
	l.reconcileUntil(t, "the tools to own the limits", func() error {
		got := ownersOf(quotaOf(t, c, m.namespace, kubevirttest.QuotaName))
		if !equality.Semantic.DeepEqual(got, want) {
			return fmt.Errorf("owners %v, want %v", got, want)
		}
		return nil
	})
	awaitClean(t, c, m.namespace, kubevirttest.QuotaName, m.hard)
}

// touchStatus changes the status of the quota, as the API server does with each new pod.
func touchStatus(t *testing.T, c *kubevirttest.Cluster, namespace string) {
	t.Helper()
	eventually(t, "a write of the status", func() error {
		q := quotaOf(t, c, namespace, kubevirttest.QuotaName)
		used := q.Status.Used[corev1.ResourceRequestsCPU]
		used.Sub(resource.MustParse("1m"))
		q.Status.Used[corev1.ResourceRequestsCPU] = used
		return c.Client.Status().Update(t.Context(), q)
	})
}
