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

// Start returns the cluster shared by the test binary. The first caller starts it. An error fails
// t, because it only requires Go. When t fails, Start keeps the cluster's logs and prints their
// directory.
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

// Main is for a TestMain. It runs the tests, stops the cluster if started, and returns the exit
// code.
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
