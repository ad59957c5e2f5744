package node

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"sync"
	"testing"

	"github.com/mooring-vm/mooring/hack/throwaway"
	"github.com/mooring-vm/mooring/hack/throwaway/image"
)

// Start returns the shared node of the test run. If $MOORING_NODE is set, `hack/node run` has
// booted the node for several packages. Otherwise Start boots a node that ends with the test
// binary. If this machine cannot run a node, Start skips the test, or fails it if
// $MOORING_CI_REQUIRE is set. If t fails, the node's logs stay, and t logs their directory.
func Start(t testing.TB) Node {
	t.Helper()
	n, err := sharedNode()
	switch {
	case errors.Is(err, image.ErrPrograms) && os.Getenv("MOORING_CI_REQUIRE") == "":
		t.Skipf("no node: %v", err)
	case err != nil:
		t.Fatalf("starting the node: %v", err)
	}
	keepArtefacts(t, n)
	return bounded{n}
}

// Shared returns the node of Start, for set-up outside of tests.
func Shared() (Node, error) {
	n, err := sharedNode()
	if err != nil {
		return nil, err
	}
	return bounded{n}, nil
}

// Main is for TestMain. It runs the tests, ends a node that they booted, and returns the exit
// code. Without Main the node also ends with the test binary, but leaves its directory to the
// next test run.
func Main(m *testing.M) int {
	code := m.Run()
	if shared.node == nil {
		return code
	}
	if err := shared.node.Stop(); err != nil {
		logger().Error("stopping the node failed", slog.Any("error", err))
		return 1
	}
	return code
}

// shared is the node of this test binary.
var shared struct {
	once sync.Once
	node *throwaway.Node
	err  error
}

func sharedNode() (*throwaway.Node, error) {
	shared.once.Do(func() {
		ctx := context.Background()
		shared.node, shared.err = throwaway.AttachCurrent(ctx)
		if errors.Is(shared.err, throwaway.ErrNoNode) {
			shared.node, shared.err = throwaway.Start(ctx,
				throwaway.Options{Spec: image.SpecFromEnv(), Log: logger()})
		}
		if shared.err != nil {
			shared.node = nil // Start has stopped the node
		}
	})
	return shared.node, shared.err
}

func logger() *slog.Logger { return slog.New(slog.NewTextHandler(os.Stderr, nil)) }
