// Package kubetest gives tests a real Kubernetes API: a control plane that all
// tests of a package share, and what they want from it again and again.
package kubetest

import (
	"context"
	"log/slog"
	"os"
	"sync"
	"testing"

	"github.com/mooring-vm/mooring/hack/kube"
)

// shared is the control plane of this test binary.
var shared struct {
	once  sync.Once
	plane *kube.ControlPlane
	err   error
}

// Start returns the control plane that the whole test binary shares; the first
// caller starts it. One that cannot be had fails t: it needs nothing but Go. When
// t fails, the logs of the control plane are kept and t says where.
func Start(t testing.TB) *kube.ControlPlane {
	t.Helper()
	shared.once.Do(func() { // with a context that outlives t
		shared.plane, shared.err = kube.Start(context.Background(), kube.Options{Log: logger()})
	})
	if shared.err != nil {
		t.Fatalf("no control plane: %v", shared.err)
	}
	keepLogs(t, shared.plane)
	return shared.plane
}

// Main is for a TestMain: it runs the tests, stops the control plane if they
// started one, and returns the exit code. Without it the control plane ends with
// the test binary all the same, but leaves its folder to be removed by the next.
func Main(m *testing.M) int {
	code := m.Run()
	if shared.plane == nil {
		return code
	}
	if err := shared.plane.Stop(); err != nil {
		logger().Error("stopping the control plane failed", slog.Any("error", err))
		return 1
	}
	return code
}

func logger() *slog.Logger { return slog.New(slog.NewTextHandler(os.Stderr, nil)) }
