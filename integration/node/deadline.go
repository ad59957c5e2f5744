package node

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"time"

	"github.com/mooring-vm/mooring/hack/throwaway"
)

// commandTimeout bounds a command or copy of a test without a deadline. The longest command, a
// resize of an emulated guest, takes up to 18 minutes.
const commandTimeout = 30 * time.Minute

// bounded is a node with a deadline of commandTimeout for each command and copy. Run has no
// deadline: it also runs processes that last as long as a test.
type bounded struct{ *throwaway.Node }

func withDeadline(ctx context.Context, name string) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, commandTimeout,
		fmt.Errorf("%s: not finished after %v", name, commandTimeout))
}

func (b bounded) Output(ctx context.Context, args ...string) (string, error) {
	ctx, cancel := withDeadline(ctx, args[0])
	defer cancel()
	return b.Node.Output(ctx, args...)
}

func (b bounded) Push(ctx context.Context, local, remote string, mode fs.FileMode) error {
	ctx, cancel := withDeadline(ctx, remote)
	defer cancel()
	return b.Node.Push(ctx, local, remote, mode)
}

func (b bounded) PushFrom(ctx context.Context, in io.Reader, remote string,
	mode fs.FileMode) error {
	ctx, cancel := withDeadline(ctx, remote)
	defer cancel()
	return b.Node.PushFrom(ctx, in, remote, mode)
}

func (b bounded) Pull(ctx context.Context, remote, local string) error {
	ctx, cancel := withDeadline(ctx, remote)
	defer cancel()
	return b.Node.Pull(ctx, remote, local)
}
