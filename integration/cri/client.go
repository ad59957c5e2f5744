// Package cri is a small CRI client, in the place of the kubelet: it creates
// pods and containers as the kubelet would ask for them.
package cri

import (
	"context"
	"fmt"
	"net"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Dialer reaches sockets of a node.
type Dialer interface {
	Dial(ctx context.Context, network, address string) (net.Conn, error)
	ContainerdSocket() string
}

// Client speaks CRI with a node's containerd. It is safe for concurrent use.
type Client struct {
	runtimeapi.RuntimeServiceClient
	conn *grpc.ClientConn
}

// Connect returns a client for the node's containerd. It connects with the
// first call, and again after containerd was restarted.
func Connect(d Dialer) (*Client, error) {
	conn, err := grpc.NewClient("passthrough:///containerd",
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.WaitForReady(true)),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return d.Dial(ctx, "unix", d.ContainerdSocket())
		}))
	if err != nil {
		return nil, fmt.Errorf("connecting to containerd: %w", err)
	}
	return &Client{RuntimeServiceClient: runtimeapi.NewRuntimeServiceClient(conn), conn: conn}, nil
}

// Close ends the connection.
func (c *Client) Close() error { return c.conn.Close() }
