package virt

import (
	"context"
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Cached returns [Read], which asks the API server no more often than once in a while. An
// error is not kept. It is safe for concurrent use; callers that need a new answer wait
// for each other.
func Cached(from client.Reader, while time.Duration) func(context.Context) (Cluster, error) {
	var (
		mu    sync.Mutex
		last  Cluster
		until time.Time
	)
	return func(ctx context.Context) (Cluster, error) {
		mu.Lock()
		defer mu.Unlock()
		if time.Now().Before(until) {
			return last, nil
		}
		c, err := Read(ctx, from)
		if err != nil {
			return Cluster{}, err
		}
		last, until = c, time.Now().Add(while)
		return c, nil
	}
}
