package grants

import (
	"context"
	"encoding/json"
	"errors"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// raw raises a quota by one patch for each observed migration. It lowers all quotas after the last
// raise.
func (b *testBed) raw(ctx context.Context, size int) ([]float64, error) {
	turns := make([]turn, b.Namespaces)
	took, err := b.round(ctx, size, func(ctx context.Context, i int) error {
		return b.raise(ctx, i, &turns[i])
	})
	return took, errors.Join(err, b.lower(ctx, min(size, b.Namespaces)))
}

// turn serializes the raises of one quota.
type turn struct {
	mu   sync.Mutex
	more int
}

func (b *testBed) raise(ctx context.Context, i int, t *turn) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.more++
	return b.setHard(ctx, space(i), b.VMs+t.more)
}

func (b *testBed) lower(ctx context.Context, namespaces int) error {
	err := each(ctx, namespaces, func(ctx context.Context, i int) error {
		return b.setHard(ctx, space(i), b.VMs)
	})
	return errors.Join(err, b.awaitBase(ctx))
}

func (b *testBed) setHard(ctx context.Context, namespace string, launchers int) error {
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{"hard": hard(launchers)}})
	if err != nil {
		return err
	}
	q := &corev1.ResourceQuota{}
	q.Namespace, q.Name = namespace, quotaName
	return b.api.Patch(ctx, q, client.RawPatch(types.MergePatchType, patch))
}

// awaitBase waits until all quotas are at their base.
func (b *testBed) awaitBase(ctx context.Context) error {
	return b.awaitQuotas(ctx, quotaName, func(q *corev1.ResourceQuota) bool {
		pods := q.Status.Hard[corev1.ResourcePods]
		return pods.Value() == int64(b.VMs) && len(q.Annotations) == 0
	})
}
