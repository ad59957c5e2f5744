// Package throwaway is the node that tests and demonstrations run on: a QEMU
// guest with a kernel of its own, cgroup v2, every capability, systemd,
// containerd with NRI, libvirt and QEMU. It is made from Debian packages and Go
// modules, and nothing of it stays behind.
package throwaway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/mooring-vm/mooring/hack/artefacts"
	"github.com/mooring-vm/mooring/hack/throwaway/cache"
	"github.com/mooring-vm/mooring/hack/throwaway/channel"
	"github.com/mooring-vm/mooring/hack/throwaway/image"
	"github.com/mooring-vm/mooring/hack/throwaway/vm"
)

// ContainerdSocket is where containerd listens in the node.
const ContainerdSocket = "/run/containerd/containerd.sock"

// ConsoleFile is the node's console log in Node.Dir.
const ConsoleFile = vm.ConsoleFile

// runName is the store's folder for running nodes.
const runName = "run"

// Node is a throw-away node that can be reached.
type Node struct {
	*channel.Client
	dir string
	// These are nil for a node that another process ends.
	owned *vm.VM
	image *image.Image
	temp  *cache.Temp
}

// Options of Start.
type Options struct {
	Spec image.Spec
	VM   vm.Options
	// Source is a checkout of Mooring; the one around the working directory where
	// empty.
	Source string
	Log    *slog.Logger
}

// Start builds what is not cached, boots a node and returns when containerd
// answers there. The node ends with Stop, and at the latest with this process,
// whatever ends it. The logs of a node that does not come up are kept, and the
// error says where.
func Start(ctx context.Context, o Options) (*Node, error) {
	store, err := cache.Default()
	if err != nil {
		return nil, err
	}
	store = store.LogTo(o.Log)
	if err := artefacts.Prune(store); err != nil {
		return nil, fmt.Errorf("removing old logs: %w", err)
	}
	n := &Node{}
	if err := n.start(ctx, store, o); err != nil {
		return nil, errors.Join(n.explain(ctx, err), n.stop())
	}
	return n, nil
}

func (n *Node) start(ctx context.Context, store *cache.Store, o Options) (err error) {
	if n.image, err = Build(ctx, o); err != nil {
		return err
	}
	if n.temp, err = store.Temp(ctx, runName); err != nil {
		return err
	}
	n.dir = n.temp.Dir
	o.VM.Log, o.VM.Store = o.Log, store
	if n.owned, err = vm.Boot(ctx, n.image, n.dir, o.VM); err != nil {
		return err
	}
	if n.Client, err = channel.Connect(ctx, n.owned.Target); err != nil {
		return err
	}
	if err = n.waitReady(ctx); err != nil {
		return err
	}
	return n.owned.Save()
}

// explain keeps the logs of a node that failed and adds to err where they are.
func (n *Node) explain(ctx context.Context, err error) error {
	if _, missing := os.Stat(filepath.Join(n.dir, ConsoleFile)); missing != nil || ctx.Err() != nil {
		return err // nothing was booted, or it was interrupted
	}
	dir, keeping := n.KeepArtefacts(ctx, "node")
	return errors.Join(fmt.Errorf("%w; its console is in %s", err, dir), keeping)
}

// readyTimeout bounds systemd's start under TCG on a busy machine.
const readyTimeout = 10 * time.Minute

// waitReady returns when everything that the node starts by itself is up.
func (n *Node) waitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, readyTimeout, fmt.Errorf("not up after %v", readyTimeout))
	defer cancel()
	out, err := n.Output(ctx, "systemctl", "is-system-running", "--wait")
	if err != nil {
		failed, _ := n.Output(ctx, "systemctl", "--failed", "--no-legend")
		return fmt.Errorf("starting the node: it is %q: %w\n%s", out, err, failed)
	}
	return nil
}

// Attach connects to the node whose owner saved its state in dir.
func Attach(ctx context.Context, dir string) (*Node, error) {
	_, target, err := vm.Load(dir)
	if err != nil {
		return nil, err
	}
	client, err := channel.Connect(ctx, target)
	if err != nil {
		return nil, err
	}
	return &Node{Client: client, dir: dir}, nil
}

// Dir holds the node's console log and its state, for Attach.
func (n *Node) Dir() string { return n.dir }

// ContainerdSocket is containerd's socket in the node, to be dialled by Dial.
func (n *Node) ContainerdSocket() string { return ContainerdSocket }

// Exited is closed when the node's QEMU is gone. It is nil for an attached node.
func (n *Node) Exited() <-chan struct{} {
	if n.owned == nil {
		return nil
	}
	return n.owned.Exited()
}

// Stop ends a node that was started here, and only the connection to one that
// was attached. It is an error that the node had ended by itself; that says
// where its console is kept.
func (n *Node) Stop() error {
	var died error
	if n.owned != nil {
		if err := n.owned.Failure(); err != nil {
			died = n.explain(context.Background(), fmt.Errorf("the node ended by itself: %w", err))
		}
	}
	return errors.Join(died, n.stop())
}

func (n *Node) stop() error {
	var errs []error
	if n.Client != nil {
		errs = append(errs, n.Client.Close())
	}
	if n.owned != nil {
		n.owned.Stop()
	}
	if n.temp != nil {
		errs = append(errs, n.temp.Close())
	}
	if n.image != nil {
		errs = append(errs, n.image.Close())
	}
	return errors.Join(errs...)
}

// Build makes the image that Start would boot, or finds it in the cache.
func Build(ctx context.Context, o Options) (*image.Image, error) {
	store, err := cache.Default()
	if err != nil {
		return nil, err
	}
	source, err := sourceRoot(o.Source)
	if err != nil {
		return nil, err
	}
	return image.NewBuilder(store.LogTo(o.Log), source, o.Log).Build(ctx, o.Spec)
}

// QEMU is the process that the node runs in, or 0 for an attached node.
func (n *Node) QEMU() int {
	if n.owned == nil {
		return 0
	}
	return n.owned.Pid()
}
