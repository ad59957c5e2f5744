package throwaway

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mooring-vm/mooring/hack/throwaway/cache"
	"github.com/mooring-vm/mooring/hack/throwaway/vm"
)

// EnvNode names the environment variable that holds the folder of the node to
// use (see Node.Dir).
const EnvNode = "MOORING_NODE"

// ErrNoNode means that no node runs that could be attached to.
var ErrNoNode = errors.New("no node is running; `hack/node up` boots one")

// currentLink is a symbolic link to the folder of the node that runs in the
// background.
const currentLink = "current"

// AttachCurrent connects to the node in $MOORING_NODE, or else to the one that
// runs in the background.
func AttachCurrent(ctx context.Context) (*Node, error) {
	dir := os.Getenv(EnvNode)
	if dir == "" {
		store, err := cache.Default()
		if err != nil {
			return nil, err
		}
		if dir, err = os.Readlink(store.Dir(runName, currentLink)); err != nil {
			return nil, ErrNoNode
		}
	}
	if _, _, err := vm.Load(dir); errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("%w (%s is gone)", ErrNoNode, dir)
	}
	n, err := Attach(ctx, dir)
	if errors.Is(err, unix.ECONNREFUSED) {
		return nil, fmt.Errorf("%w (%s does not answer)", ErrNoNode, dir)
	}
	return n, err
}

// MakeCurrent makes AttachCurrent find the node. The returned function undoes it.
func (n *Node) MakeCurrent() (release func() error, err error) {
	store, err := cache.Default()
	if err != nil {
		return nil, err
	}
	link := store.Dir(runName, currentLink)
	if err := os.Remove(link); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	if err := os.Symlink(n.dir, link); err != nil {
		return nil, fmt.Errorf("publishing the node: %w", err)
	}
	return func() error {
		if to, err := os.Readlink(link); err != nil || to != n.dir {
			return nil //nolint:nilerr // another node is the current one
		}
		return os.Remove(link)
	}, nil
}

// StopCurrent ends the node that runs in the background and waits until its
// owner is gone.
func StopCurrent(ctx context.Context) error {
	store, err := cache.Default()
	if err != nil {
		return err
	}
	dir, err := os.Readlink(store.Dir(runName, currentLink))
	if err != nil {
		return ErrNoNode
	}
	state, _, err := vm.Load(dir)
	if err != nil {
		return fmt.Errorf("%w (%s is gone)", ErrNoNode, dir)
	}
	n, err := Attach(ctx, dir) // proof that the owner lives: it dies with its node
	if err != nil {
		return fmt.Errorf("%w: %w", ErrNoNode, err)
	}
	defer n.Stop() //nolint:errcheck // the connection only
	return stopOwner(ctx, state.Owner)
}

func stopOwner(ctx context.Context, pid int) error {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return fmt.Errorf("opening the node's owner, process %d: %w", pid, err)
	}
	defer unix.Close(fd)
	if err := unix.PidfdSendSignal(fd, unix.SIGTERM, nil, 0); err != nil {
		return fmt.Errorf("ending the node's owner, process %d: %w", pid, err)
	}
	for ctx.Err() == nil {
		ready, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int((200 * time.Millisecond).Milliseconds()))
		if err != nil && !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("waiting for the node's owner, process %d: %w", pid, err)
		}
		if ready > 0 {
			return nil
		}
	}
	return context.Cause(ctx)
}
