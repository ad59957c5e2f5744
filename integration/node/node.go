// Package node is the suites' access to the machine under test. The throw-away QEMU node
// implements [Node], and a kind node can.
package node

import (
	"context"
	"io"
	"io/fs"
	"net"

	"github.com/mooring-vm/mooring/hack/throwaway/channel"
)

// Command is a program to run on a node, with its streams.
type Command = channel.Command

// ExitError is the error of a command with another exit code than 0.
type ExitError = channel.ExitError

// ErrLost means that the node has ended. Every error of a lost node wraps it.
var ErrLost = channel.ErrLost

// Node is a machine with containerd and root rights. All methods are safe for concurrent use. They
// return at the latest when their context ends or the node is lost.
type Node interface {
	// Run runs a command and waits for its end. See ExitError and ErrLost.
	Run(ctx context.Context, cmd Command) error
	// Output runs a command and returns its trimmed standard output. The error has the
	// command's standard error.
	Output(ctx context.Context, args ...string) (string, error)
	// Push copies a local file to the node. The node never has a part of the file.
	Push(ctx context.Context, local, remote string, mode fs.FileMode) error
	// PushFrom is Push with content from a reader.
	PushFrom(ctx context.Context, in io.Reader, remote string, mode fs.FileMode) error
	// Pull copies a file of the node.
	Pull(ctx context.Context, remote, local string) error
	// Dial connects to a socket of the node. network is "tcp" or "unix".
	Dial(ctx context.Context, network, address string) (net.Conn, error)
	// Listen makes the node listen on one of its TCP addresses. The listener accepts the
	// connections here.
	Listen(address string) (net.Listener, error)
	// Forward makes an address of the node lead to an address of this machine.
	Forward(address, to string) (io.Closer, error)
	// ContainerdSocket is the path of containerd's socket on the node.
	ContainerdSocket() string
	// Done is closed when the node is lost.
	Done() <-chan struct{}
}
