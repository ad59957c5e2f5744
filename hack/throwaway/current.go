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

// EnvNode names the environment variable with the directory of the node to use (see Node.Dir).
const EnvNode = "MOORING_NODE"

// ErrNoNode reports a missing node.
var ErrNoNode = errors.New("no node is running; `hack/node up` boots one")

// currentLink is a symbolic link to the directory of the background node.
const currentLink = "current"

// ErrRunning reports a second background node.
var ErrRunning = errors.New("a node is running already; `hack/node down` ends it")

// AttachCurrent connects to the node in $MOORING_NODE, or else to the background node.
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
	// Check before dialling: another node may have the port of a dead one.
	owned, err := cache.Owned(dir)
	if err != nil {
		return nil, fmt.Errorf("checking the owner of the node in %s: %w", dir, err)
	}
	if !owned {
		return nil, fmt.Errorf("%w (the owner of %s is gone)", ErrNoNode, dir)
	}
	n, err := Attach(ctx, dir)
	if errors.Is(err, unix.ECONNREFUSED) || errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("%w (%s does not answer)", ErrNoNode, dir)
	}
	return n, err
}

// StartCurrent starts the background node and a link to it for AttachCurrent. release removes the
// link. If several processes call StartCurrent, the first one starts a node. Each further call
// waits and returns ErrRunning.
func StartCurrent(ctx context.Context, o Options) (n *Node, release func() error, err error) {
	store, err := cache.Default()
	if err != nil {
		return nil, nil, err
	}
	unlock, err := store.LogTo(o.Log).Lock(ctx, currentLink)
	if err != nil {
		return nil, nil, err
	}
	defer unlock()
	running, err := Running()
	if err != nil {
		return nil, nil, err
	}
	if running {
		return nil, nil, ErrRunning
	}
	if n, err = Start(ctx, o); err != nil {
		return nil, nil, err
	}
	if release, err = n.makeCurrent(store); err != nil {
		return nil, nil, errors.Join(err, n.Stop())
	}
	return n, release, nil
}

// Running reports whether the owner process of the background node runs. The node itself may hang.
func Running() (bool, error) {
	store, err := cache.Default()
	if err != nil {
		return false, err
	}
	dir, err := os.Readlink(store.Dir(runName, currentLink))
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return cache.Owned(dir)
}

func (n *Node) makeCurrent(store *cache.Store) (release func() error, err error) {
	link := store.Dir(runName, currentLink)
	if err := os.Remove(link); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	if err := os.Symlink(n.dir, link); err != nil {
		return nil, fmt.Errorf("publishing the node: %w", err)
	}
	return func() error { return unpublish(link, n.dir) }, nil
}

// unpublish removes the link to the node in dir. It keeps a link to another node.
func unpublish(link, dir string) error {
	if to, err := os.Readlink(link); err != nil || to != dir {
		return nil //nolint:nilerr // another node is the current one, or none
	}
	return os.Remove(link)
}

// stopGrace is the owner's time to end after SIGTERM.
const stopGrace = 15 * time.Second

// StopCurrent ends the background node, even a hung one, and removes its directory.
func StopCurrent(ctx context.Context) error {
	store, err := cache.Default()
	if err != nil {
		return err
	}
	link := store.Dir(runName, currentLink)
	dir, err := os.Readlink(link)
	if err != nil {
		return ErrNoNode
	}
	owned, err := cache.Owned(dir)
	if err != nil {
		return err
	}
	if !owned {
		err = fmt.Errorf("%w (the owner of %s is gone)", ErrNoNode, dir)
	} else if err := endOwner(ctx, dir); err != nil {
		return err
	}
	return errors.Join(err, unpublish(link, dir), store.Sweep(ctx, runName))
}

// endOwner signals the owner's process and QEMU. It does not need an answer from the node.
func endOwner(ctx context.Context, dir string) error {
	state, _, err := vm.Load(dir)
	if err != nil {
		return err
	}
	if state.Owner.Pid == 0 {
		return fmt.Errorf("the state of the node in %s names no owner process", dir)
	}
	return errors.Join(state.Owner.End(ctx, stopGrace), state.QEMU.End(ctx, stopGrace))
}
