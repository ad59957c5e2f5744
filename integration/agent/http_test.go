package agent

import (
	"context"
	"errors"
	"fmt"
	"net"
	"testing"

	"github.com/mooring-vm/mooring/integration/node"
)

// lostNode is a node that has ended.
type lostNode struct {
	node.Node
	dials int
}

func (n *lostNode) Dial(context.Context, string, string) (net.Conn, error) {
	n.dials++
	return nil, fmt.Errorf("dialling: %w", node.ErrLost)
}

func TestWaitReadyEndsWithALostNode(t *testing.T) {
	n := &lostNode{}
	err := (&Agent{node: n}).WaitReady(t.Context())
	if !errors.Is(err, node.ErrLost) || n.dials != 1 {
		t.Errorf("WaitReady = %v after %d attempts, want node.ErrLost at once", err, n.dials)
	}
}
