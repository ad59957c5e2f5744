// Package node is what the suites see of the machine that they run containers
// on. The throw-away QEMU node implements it, and a kind node can.
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

// ExitError is the error for a command that ran and failed.
type ExitError = channel.ExitError

// ErrLost is wrapped by every error of a node that died.
var ErrLost = channel.ErrLost

// Node is a machine with containerd and root rights. All methods are safe for
// concurrent use, and none of them outlives its context or the node.
type Node interface {
	// Run runs a command and waits for it; see ExitError and ErrLost.
	Run(ctx context.Context, cmd Command) error
	// Output runs a command and returns its trimmed standard output. Standard
	// error becomes part of the error.
	Output(ctx context.Context, args ...string) (string, error)
	// Push copies a local file to the node; it is there whole or not at all.
	Push(ctx context.Context, local, remote string, mode fs.FileMode) error
	// PushFrom is Push from a reader.
	PushFrom(ctx context.Context, in io.Reader, remote string, mode fs.FileMode) error
	// Pull copies a file of the node.
	Pull(ctx context.Context, remote, local string) error
	// Dial connects to a socket of the node; network is "tcp" or "unix".
	Dial(ctx context.Context, network, address string) (net.Conn, error)
	// Listen has the node listen on a TCP address of its own; what connects there is
	// accepted here.
	Listen(address string) (net.Listener, error)
	// ContainerdSocket is the path of containerd's socket on the node.
	ContainerdSocket() string
	// Done is closed when the node is lost.
	Done() <-chan struct{}
}
