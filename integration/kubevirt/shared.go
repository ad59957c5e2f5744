package kubevirttest

import (
	"context"
	"log/slog"
	"sync"
	"testing"
)

// shared is the cluster of this test binary.
var shared struct {
	once    sync.Once
	cluster *Cluster
	err     error
}

// Start returns the cluster that the whole test binary shares; the first caller
// starts it. One that cannot be had fails t: it needs nothing but Go. When t
// fails, the logs of the cluster are kept and t says where.
func Start(t testing.TB) *Cluster {
	t.Helper()
	shared.once.Do(func() { // with a context that outlives t
		shared.cluster, shared.err = New(context.Background(), logger())
	})
	if shared.err != nil {
		t.Fatalf("no cluster: %v", shared.err)
	}
	keepLogs(t, shared.cluster)
	return shared.cluster
}

// Main is for a TestMain: it runs the tests, stops the cluster if they started
// one, and returns the exit code.
func Main(m *testing.M) int {
	code := m.Run()
	if shared.cluster == nil {
		return code
	}
	if err := shared.cluster.Stop(); err != nil {
		logger().Error("stopping the cluster failed", slog.Any("error", err))
		return 1
	}
	return code
}
