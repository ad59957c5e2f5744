package cri

import (
	"context"
	"errors"
	"net"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/mooring-vm/mooring/integration/node"
)

// fakeNode is a node with a containerd that accepts connections and never answers. With a closed
// listener, it is a node without containerd.
type fakeNode struct {
	containerd net.Listener
	dialled    chan struct{}
	lost       chan struct{}
}

func newFakeNode(t *testing.T) *fakeNode {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return &fakeNode{containerd: l, dialled: make(chan struct{}, 1), lost: make(chan struct{})}
}

func (n *fakeNode) Dial(ctx context.Context, _, _ string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", n.containerd.Addr().String())
	select {
	case n.dialled <- struct{}{}:
	default:
	}
	return conn, err
}

func (n *fakeNode) ContainerdSocket() string { return "" }

func (n *fakeNode) Done() <-chan struct{} { return n.lost }

func (n *fakeNode) version(t *testing.T) error {
	t.Helper()
	c, err := Connect(n)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_, err = c.Version(t.Context(), &runtimeapi.VersionRequest{})
	return err
}

func TestCallsEndWithTheNode(t *testing.T) {
	n := newFakeNode(t)
	go func() {
		<-n.dialled
		close(n.lost)
	}()
	if err := n.version(t); !errors.Is(err, node.ErrLost) {
		t.Errorf("the call ended with %v, want node.ErrLost", err)
	}
}

func TestCallsFailWhileContainerdIsAway(t *testing.T) {
	n := newFakeNode(t)
	if err := n.containerd.Close(); err != nil {
		t.Fatal(err)
	}
	err := n.version(t)
	if status.Code(err) != codes.Unavailable || errors.Is(err, node.ErrLost) {
		t.Errorf("the call ended with %v, want code Unavailable and not node.ErrLost", err)
	}
}
