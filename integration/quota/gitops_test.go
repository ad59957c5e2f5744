package quota

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	virtv1 "kubevirt.io/api/core/v1"

	kubevirttest "github.com/mooring-vm/mooring/integration/kubevirt"
	"github.com/mooring-vm/mooring/quota"
)

// TestGitOps applies the manifest of a full quota over and over while a VM migrates, as deployment
// tools do. The recipes are those of docs/how-to/gitops.md.
func TestGitOps(t *testing.T) {
	c, _ := startGuarded(t)
	tests := map[string]func(*testing.T, *kubevirttest.Cluster){
		"a late sync of Argo CD": testLateSync,
	}
	for name, tool := range map[string]tool{
		"Argo CD":                       argoCD{}.tool(),
		"Argo CD ignores differences":   argoCD{ignores: true}.tool(),
		"Argo CD respects ignored ones": argoCD{ignores: true, respects: true}.tool(),
		"Flux":                          flux(),
		"kubectl":                       kubectl(),
	} {
		tests[name] = func(t *testing.T, c *kubevirttest.Cluster) { testGitOps(t, c, tool) }
	}
	inParallel(t, c, tests)
}

func testGitOps(t *testing.T, c *kubevirttest.Cluster, tool tool) {
	m := &manifest{namespace: c.Namespace(t, nil), hard: full()}
	wantPass(t, tool.sync(t.Context(), c, m))
	awaitHard(t, c, m.namespace, kubevirttest.QuotaName, m.hard)

	stop := keepSyncing(t, c, tool, m)
	migration, r := charged(t, c, m.namespace)
	raised := plus(m.hard, r)
	awaitHard(t, c, m.namespace, kubevirttest.QuotaName, raised)
	migration.GoOn(t)
	migration.Await(t, virtv1.MigrationSucceeded)
	stop()
	if n := m.applies.Load(); tool.quiet && n > 1 {
		t.Errorf("applied %d times, want once before the migration", n)
	}
	awaitClean(t, c, m.namespace, kubevirttest.QuotaName, m.hard)
	awaitOwned(t, c, m, tool.manager)

	delete(m.hard, corev1.ResourceRequestsCPU)
	m.hard[corev1.ResourcePods] = resource.MustParse("5")
	wantPass(t, tool.sync(t.Context(), c, m))
	awaitHard(t, c, m.namespace, kubevirttest.QuotaName, m.hard)
}

// keepSyncing syncs the manifest until stop is called. Each sync must leave the manifest's limits
// as the base of the quota.
func keepSyncing(
	t *testing.T, c *kubevirttest.Cluster, tool tool, m *manifest,
) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	var syncs atomic.Int32
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			err := syncOnce(ctx, c, tool, m)
			if err != nil && tool.stale {
				err = syncOnce(ctx, c, tool, m)
			}
			if err != nil && ctx.Err() == nil {
				t.Error(err)
				return
			}
			syncs.Add(1)
			time.Sleep(syncPeriod)
		}
	}()
	return func() {
		before := syncs.Load()
		eventually(t, "a sync after the migration", func() error {
			if syncs.Load() < before+2 && !t.Failed() {
				return fmt.Errorf("%d syncs", syncs.Load())
			}
			return nil
		})
		cancel()
		<-ended
	}
}

// syncPeriod is shorter than in reality: Argo CD heals after 5 seconds, and Flux compares after a
// minute or later.
const syncPeriod = 500 * time.Millisecond

func syncOnce(ctx context.Context, c *kubevirttest.Cluster, tool tool, m *manifest) error {
	err := tool.sync(ctx, c, m)
	if err != nil && (tool.forces || !apierrors.IsConflict(err)) {
		return fmt.Errorf("syncing: %w", err)
	}
	q, err := m.live(ctx, c)
	if err != nil {
		return err
	}
	base, err := quota.Base(q, nil, quota.Options{})
	if err != nil {
		return err
	}
	if !equality.Semantic.DeepEqual(base, m.hard) {
		return fmt.Errorf("the base is %v, and the manifest has %v", base, m.hard)
	}
	return nil
}

// awaitOwned returns when the tool owns the limits of the manifest, and the controller none.
func awaitOwned(t *testing.T, c *kubevirttest.Cluster, m *manifest, tool string) {
	t.Helper()
	eventually(t, "the tool to own the limits", func() error {
		q, err := m.live(t.Context(), c)
		if err != nil {
			return err
		}
		want := map[string][]corev1.ResourceName{tool: slices.Sorted(maps.Keys(m.hard))}
		if got := ownersOf(q); !equality.Semantic.DeepEqual(got, want) {
			return fmt.Errorf("owners %v, want %v", got, want)
		}
		return nil
	})
}

// testLateSync has Argo CD read the limits during a migration and apply them after its end. The
// raised limits become the base, and the next sync sets the manifest's limits.
func testLateSync(t *testing.T, c *kubevirttest.Cluster) {
	argo := argoCD{ignores: true, respects: true}
	m := &manifest{namespace: c.Namespace(t, nil), hard: full()}
	wantPass(t, argo.sync(t.Context(), c, m))
	awaitHard(t, c, m.namespace, kubevirttest.QuotaName, m.hard)
	migration, r := charged(t, c, m.namespace)
	awaitHard(t, c, m.namespace, kubevirttest.QuotaName, plus(m.hard, r))
	q, err := m.live(t.Context(), c)
	wantPass(t, err)
	late := argo.target(q, m)
	if !equality.Semantic.DeepEqual(late.hard, plus(m.hard, r)) {
		t.Errorf("the target is %v, want the live limits", late.hard)
	}
	migration.GoOn(t)
	migration.Await(t, virtv1.MigrationSucceeded)
	awaitClean(t, c, m.namespace, kubevirttest.QuotaName, m.hard)
	wantPass(t, late.apply(t.Context(), c, argo.tool().manager, forced))
	wantPass(t, argo.sync(t.Context(), c, m))
	awaitClean(t, c, m.namespace, kubevirttest.QuotaName, m.hard)
}
