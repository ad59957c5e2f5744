// Package kubetest gives tests a real Kubernetes API: a control plane shared by all tests of a
// package, and common helpers.
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

// Start returns the control plane shared by the test binary. The first caller starts it. An error
// fails t, because it only requires Go. When t fails, Start keeps the control plane's logs and
// prints their directory.
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

// Main is for a TestMain. It runs the tests, stops the control plane if started, and returns the
// exit code. Without Main, the control plane still ends with the test binary, and the next run
// removes its directory.
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
