package grants

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// raw has so many migrations begin, raises the quota by one patch for each as soon as it
// is there, and returns for each how long it took, from before its creation, until
// status.hard had it. It ends them.
func (b *bed) raw(ctx context.Context, size int) ([]float64, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	w, err := b.api.Watch(ctx, &corev1.ResourceQuotaList{})
	if err != nil {
		return nil, err
	}
	defer w.Stop()
	all, wants := make([]begun, size), make([]want, size)
	turns := make([]turn, b.Namespaces)
	wrote := make(chan error, 1)
	go func() {
		wrote <- each(ctx, size, func(ctx context.Context, i int) (err error) {
			in := i % b.Namespaces
			if all[i], err = b.begin(ctx, space(in), vm(i/b.Namespaces)); err != nil {
				return err
			}
			wants[i], err = b.raise(ctx, space(in), &turns[in])
			return err
		})
	}()
	seen, err := b.raised(ctx, w, size)
	if err = errors.Join(err, <-wrote); err != nil {
		return nil, err
	}
	var took []float64
	for i, want := range wants {
		took = append(took, seen[want].Sub(all[i].at).Seconds())
	}
	return took, errors.Join(b.lower(ctx, min(size, b.Namespaces)), b.endAll(ctx, all))
}

// want is a quota with room for so many launchers.
type want struct {
	namespace string
	launchers int
}

// turn has those who raise a quota do so one after the other.
type turn struct {
	mu   sync.Mutex
	more int
}

func (b *bed) raise(ctx context.Context, namespace string, t *turn) (want, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.more++
	to := want{namespace, b.VMs + t.more}
	return to, b.setHard(ctx, namespace, to.launchers)
}

// raised are the moments at which quotas were seen to have room for one more, and for all
// less than that.
func (b *bed) raised(ctx context.Context, w watch.Interface, n int) (map[want]time.Time, error) {
	seen := map[want]time.Time{}
	for len(seen) < n {
		q, err := next[*corev1.ResourceQuota](ctx, w)
		if err != nil {
			return nil, fmt.Errorf("%d of %d are raised: %w", len(seen), n, err)
		}
		pods := q.Status.Hard[corev1.ResourcePods]
		for launchers := b.VMs + 1; int64(launchers) <= pods.Value(); launchers++ {
			if _, before := seen[want{q.Namespace, launchers}]; !before {
				seen[want{q.Namespace, launchers}] = time.Now()
			}
		}
	}
	return seen, nil
}

func (b *bed) lower(ctx context.Context, namespaces int) error {
	err := each(ctx, namespaces, func(ctx context.Context, i int) error { return b.setHard(ctx, space(i), b.VMs) })
	return errors.Join(err, b.awaitBase(ctx))
}

func (b *bed) setHard(ctx context.Context, namespace string, launchers int) error {
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{"hard": hard(launchers)}})
	if err != nil {
		return err
	}
	q := &corev1.ResourceQuota{}
	q.Namespace, q.Name = namespace, quotaName
	return b.api.Patch(ctx, q, client.RawPatch(types.MergePatchType, patch))
}

// awaitBase waits until no quota is raised.
func (b *bed) awaitBase(ctx context.Context) error {
	return b.awaitQuotas(ctx, func(q *corev1.ResourceQuota) bool {
		pods := q.Status.Hard[corev1.ResourcePods]
		return pods.Value() == int64(b.VMs) && len(q.Annotations) == 0
	})
}

// next returns the next object of a watch.
func next[T any](ctx context.Context, w watch.Interface) (o T, err error) {
	for {
		select {
		case <-ctx.Done():
			return o, ctx.Err()
		case e, open := <-w.ResultChan():
			if !open {
				return o, errors.New("the watch has ended")
			}
			if o, ok := e.Object.(T); ok {
				return o, nil
			}
		}
	}
}
