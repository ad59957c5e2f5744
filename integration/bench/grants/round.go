package grants

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// roundTimeout bounds a round.
const roundTimeout = 3 * time.Minute

// reaction reacts to a migration in the namespace with this number.
type reaction func(ctx context.Context, namespace int) error

func ignore(context.Context, int) error { return nil }

// round creates migrations as fast as the API server allows. It returns the time of each from its
// observation until status.hard has space for it and the earlier ones. Watches of this process
// provide both times. It deletes the migrations at the end.
func (b *testBed) round(ctx context.Context, size int, react reaction) (took []float64, err error) {
	ctx, cancel := context.WithTimeout(ctx, roundTimeout)
	defer cancel()
	all := make([]*kubevirtv1.VirtualMachineInstanceMigration, size)
	group, watching := errgroup.WithContext(ctx)
	started, raised := moments{}, moments{}
	migrations, quotas, err := b.watches(ctx)
	if err != nil {
		return nil, err
	}
	group.Go(func() error { return b.recordStarts(watching, migrations, size, started, react) })
	group.Go(func() error { return b.recordRaises(watching, quotas, size, raised) })
	group.Go(func() error {
		return each(watching, size, func(ctx context.Context, i int) (err error) {
			all[i], err = b.createMigration(ctx, space(i%b.Namespaces), vm(i/b.Namespaces))
			return err
		})
	})
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return raised.since(started), each(ctx, size, func(ctx context.Context, i int) error {
		return b.deleteMigration(ctx, all[i])
	})
}

// moments are times of events by namespace, in order.
type moments map[string][]time.Time

func (m moments) since(started moments) []float64 {
	var took []float64
	for namespace, ends := range m {
		for i, end := range ends {
			took = append(took, end.Sub(started[namespace][i]).Seconds())
		}
	}
	return took
}

func (b *testBed) watches(ctx context.Context) (migrations, quotas watch.Interface, err error) {
	if migrations, err = b.watch(ctx, &kubevirtv1.VirtualMachineInstanceMigrationList{}); err !=
		nil {
		return nil, nil, err
	}
	quotas, err = b.watch(ctx, &corev1.ResourceQuotaList{})
	return migrations, quotas, err
}

// recordStarts records the times of n observed migrations, and runs react for each.
func (b *testBed) recordStarts(
	ctx context.Context, w watch.Interface, n int, started moments, react reaction,
) error {
	reactions, ctx := errgroup.WithContext(ctx)
	known := map[types.UID]bool{}
	for len(known) < n {
		m, err := next[*kubevirtv1.VirtualMachineInstanceMigration](ctx, w)
		if err != nil {
			return errors.Join(fmt.Errorf("%d of %d migrations observed: %w", len(known), n, err),
				reactions.Wait())
		}
		if m.DeletionTimestamp != nil || known[m.UID] {
			continue
		}
		known[m.UID] = true
		started[m.Namespace] = append(started[m.Namespace], time.Now())
		i, err := strconv.Atoi(strings.TrimPrefix(m.Namespace, spacePrefix))
		if err != nil {
			return fmt.Errorf("namespace %s: %w", m.Namespace, err)
		}
		reactions.Go(func() error { return react(ctx, i) })
	}
	return reactions.Wait()
}

// recordRaises records the times of n observed raises by one launcher.
func (b *testBed) recordRaises(
	ctx context.Context, w watch.Interface, n int, raised moments,
) error {
	for recorded := 0; recorded < n; {
		q, err := next[*corev1.ResourceQuota](ctx, w)
		if err != nil {
			return fmt.Errorf("%d of %d raises observed: %w", recorded, n, err)
		}
		if q.Name != quotaName {
			continue
		}
		pods := q.Status.Hard[corev1.ResourcePods]
		for range int(pods.Value()) - b.VMs - len(raised[q.Namespace]) {
			raised[q.Namespace] = append(raised[q.Namespace], time.Now())
			recorded++
		}
	}
	return nil
}

func (b *testBed) createMigration(
	ctx context.Context, namespace, vmi string,
) (*kubevirtv1.VirtualMachineInstanceMigration, error) {
	m := &kubevirtv1.VirtualMachineInstanceMigration{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: "m-"}}
	m.Spec.VMIName = vmi
	return m, b.api.Create(ctx, m)
}

// deleteMigration deletes a migration and its finalizers, in place of virt-controller.
func (b *testBed) deleteMigration(
	ctx context.Context, m *kubevirtv1.VirtualMachineInstanceMigration,
) error {
	noFinalizers := client.RawPatch(types.MergePatchType,
		[]byte(`{"metadata":{"finalizers":null}}`))
	if err := b.api.Patch(ctx, m, noFinalizers); err != nil {
		return err
	}
	return b.api.Delete(ctx, m)
}
