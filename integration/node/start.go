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

// Start returns the node that the whole test run shares: the one in
// $MOORING_NODE where `hack/node run` booted it for several packages, or else
// one that is booted now and ends with the test binary. Where no node can be
// had on this machine the test is skipped with the reason, or fails if
// $MOORING_CI_REQUIRE is set. When t fails, the node's logs are kept and t says
// where.
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

// Shared is the node that Start returns, for set-up that no test owns.
func Shared() (Node, error) {
	n, err := sharedNode()
	if err != nil {
		return nil, err
	}
	return bounded{n}, nil
}

// Main is for a TestMain: it runs the tests, ends the node if they booted one,
// and returns the exit code. Without it the node ends with the test binary all
// the same, but leaves its folder to be removed by the next.
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
			shared.node, shared.err = throwaway.Start(ctx, throwaway.Options{Spec: image.SpecFromEnv(), Log: logger()})
		}
		if shared.err != nil {
			shared.node = nil // Start has stopped what there was of it
		}
	})
	return shared.node, shared.err
}

func logger() *slog.Logger { return slog.New(slog.NewTextHandler(os.Stderr, nil)) }
