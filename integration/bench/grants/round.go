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

// patience bounds a round.
const patience = 3 * time.Minute

// answer reacts to a migration in the namespace with this number.
type answer func(ctx context.Context, namespace int) error

func nobody(context.Context, int) error { return nil }

// round creates migrations as fast as the API server allows. It returns the time of each from its
// observation until status.hard has space for it and the earlier ones. Watches of this process
// provide both times. It deletes the migrations at the end.
func (b *bed) round(ctx context.Context, size int, does answer) (took []float64, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	all := make([]*kubevirtv1.VirtualMachineInstanceMigration, size)
	group, watching := errgroup.WithContext(ctx)
	began, raised := moments{}, moments{}
	migrations, quotas, err := b.watches(ctx)
	if err != nil {
		return nil, err
	}
	group.Go(func() error { return b.seeBegun(watching, migrations, size, began, does) })
	group.Go(func() error { return b.seeRaised(watching, quotas, size, raised) })
	group.Go(func() error {
		return each(watching, size, func(ctx context.Context, i int) (err error) {
			all[i], err = b.begin(ctx, space(i%b.Namespaces), vm(i/b.Namespaces))
			return err
		})
	})
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return raised.since(began),
		each(ctx, size, func(ctx context.Context, i int) error { return b.end(ctx, all[i]) })
}

// moments are times of events by namespace, in order.
type moments map[string][]time.Time

func (m moments) since(began moments) []float64 {
	var took []float64
	for namespace, ends := range m {
		for i, end := range ends {
			took = append(took, end.Sub(began[namespace][i]).Seconds())
		}
	}
	return took
}

func (b *bed) watches(ctx context.Context) (migrations, quotas watch.Interface, err error) {
	if migrations, err = b.watch(ctx, &kubevirtv1.VirtualMachineInstanceMigrationList{}); err !=
		nil {
		return nil, nil, err
	}
	quotas, err = b.watch(ctx, &corev1.ResourceQuotaList{})
	return migrations, quotas, err
}

// seeBegun records the times of n observed migrations, and starts an answer for each.
func (b *bed) seeBegun(
	ctx context.Context, w watch.Interface, n int, began moments, does answer,
) error {
	answers, ctx := errgroup.WithContext(ctx)
	seen := map[types.UID]bool{}
	for len(seen) < n {
		m, err := next[*kubevirtv1.VirtualMachineInstanceMigration](ctx, w)
		if err != nil {
			return errors.Join(fmt.Errorf("%d of %d migrations have begun: %w", len(seen), n, err),
				answers.Wait())
		}
		if m.DeletionTimestamp != nil || seen[m.UID] {
			continue
		}
		seen[m.UID] = true
		began[m.Namespace] = append(began[m.Namespace], time.Now())
		i, err := strconv.Atoi(strings.TrimPrefix(m.Namespace, spacePrefix))
		if err != nil {
			return fmt.Errorf("namespace %s: %w", m.Namespace, err)
		}
		answers.Go(func() error { return does(ctx, i) })
	}
	return answers.Wait()
}

// seeRaised records the times of n observed raises by one launcher.
func (b *bed) seeRaised(ctx context.Context, w watch.Interface, n int, raised moments) error {
	for seen := 0; seen < n; {
		q, err := next[*corev1.ResourceQuota](ctx, w)
		if err != nil {
			return fmt.Errorf("%d of %d quotas are raised: %w", seen, n, err)
		}
		pods := q.Status.Hard[corev1.ResourcePods]
		for range int(pods.Value()) - b.VMs - len(raised[q.Namespace]) {
			raised[q.Namespace] = append(raised[q.Namespace], time.Now())
			seen++
		}
	}
	return nil
}

func (b *bed) begin(
	ctx context.Context, namespace, vmi string,
) (*kubevirtv1.VirtualMachineInstanceMigration, error) {
	m := &kubevirtv1.VirtualMachineInstanceMigration{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: "m-"}}
	m.Spec.VMIName = vmi
	return m, b.api.Create(ctx, m)
}

// end deletes a migration and its finalizers, in place of virt-controller.
func (b *bed) end(ctx context.Context, m *kubevirtv1.VirtualMachineInstanceMigration) error {
	free := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))
	if err := b.api.Patch(ctx, m, free); err != nil {
		return err
	}
	return b.api.Delete(ctx, m)
}
