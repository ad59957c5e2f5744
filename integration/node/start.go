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
	return n
}

// Shared is the node that Start returns, for set-up that no test owns.
func Shared() (Node, error) { return sharedNode() }

var sharedNode = sync.OnceValues(func() (*throwaway.Node, error) {
	ctx := context.Background()
	n, err := throwaway.AttachCurrent(ctx)
	if !errors.Is(err, throwaway.ErrNoNode) {
		return n, err
	}
	return throwaway.Start(ctx, throwaway.Options{
		Spec: image.SpecFromEnv(), Log: slog.New(slog.NewTextHandler(os.Stderr, nil)),
	})
})
