package virt

import (
	"context"
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Cached returns a [Read] that queries the API server at most once per period. It does not cache
// errors. It is safe for concurrent use. Callers block while another one reads.
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
