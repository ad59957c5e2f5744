package grants

import (
	"context"
	"errors"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// watch watches new changes of objects of a list's kind. It restarts watches ended by the API
// server, for example slow ones.
func (b *testBed) watch(ctx context.Context, list client.ObjectList) (watch.Interface, error) {
	if err := b.api.List(ctx, list, client.Limit(1)); err != nil {
		return nil, err
	}
	again := func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
		return b.api.Watch(ctx, list, &client.ListOptions{Raw: &o})
	}
	return watchtools.NewRetryWatcherWithContext(ctx, list.GetResourceVersion(),
		&cache.ListWatch{WatchFuncWithContext: again})
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
