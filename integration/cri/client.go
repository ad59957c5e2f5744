// Package cri is a small CRI client in the place of kubelet: it creates pods and containers as
// kubelet does.
package cri

import (
	"context"
	"fmt"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/mooring-vm/mooring/integration/node"
)

// callTimeout bounds a call on a busy machine. Kubelet's own runtimeRequestTimeout is 2 minutes.
const callTimeout = 10 * time.Minute

// Dialer connects to sockets of a node.
type Dialer interface {
	Dial(ctx context.Context, network, address string) (net.Conn, error)
	ContainerdSocket() string
	// Done is closed when the node is lost.
	Done() <-chan struct{}
}

// Client speaks CRI with a node's containerd. It is safe for concurrent use. Each call ends
// after callTimeout at the latest. If the node is lost, it ends at once, and its error wraps
// node.ErrLost.
type Client struct {
	runtimeapi.RuntimeServiceClient
	conn *grpc.ClientConn
}

// Connect returns a client for the node's containerd. The first call connects, and so does the
// first call after a restart of containerd. Calls fail while containerd is away.
func Connect(d Dialer) (*Client, error) {
	conn, err := grpc.NewClient("passthrough:///containerd",
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithUnaryInterceptor(untilLost(d.Done())),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return d.Dial(ctx, "unix", d.ContainerdSocket())
		}))
	if err != nil {
		return nil, fmt.Errorf("connecting to containerd: %w", err)
	}
	return &Client{RuntimeServiceClient: runtimeapi.NewRuntimeServiceClient(conn), conn: conn}, nil
}

// untilLost ends running calls when the node is lost.
func untilLost(lost <-chan struct{}) grpc.UnaryClientInterceptor {
	return func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn,
		invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		ctx, cancel := context.WithTimeout(ctx, callTimeout)
		defer cancel()
		go func() {
			select {
			case <-lost:
				cancel()
			case <-ctx.Done():
			}
		}()
		err := invoke(ctx, method, req, reply, cc, opts...)
		if err == nil {
			return nil
		}
		select {
		case <-lost: // a gRPC status cannot wrap it
			return fmt.Errorf("%w: %w", node.ErrLost, err)
		default:
			return err
		}
	}
}

// Close ends the connection.
func (c *Client) Close() error { return c.conn.Close() }
