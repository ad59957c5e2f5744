// Package throwaway boots the node for tests and demonstrations: a QEMU guest with its own kernel,
// cgroup v2, every capability, systemd, containerd with NRI, libvirt and QEMU. The package builds
// the node from Debian packages and Go modules. After the node's end only caches stay on the
// machine.
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

// ContainerdSocket is the path of containerd's socket in the node.
const ContainerdSocket = "/run/containerd/containerd.sock"

// ConsoleFile is the node's console log in Node.Dir.
const ConsoleFile = vm.ConsoleFile

// runName is the store's directory for running nodes.
const runName = "run"

// Node is a connection to a throw-away node.
type Node struct {
	*channel.Client
	dir string
	// These fields are nil for a node of another process.
	owned *vm.VM
	image *image.Image
	temp  *cache.Temp
}

// Options of Start.
type Options struct {
	Spec image.Spec
	// Additions to the node's disk, or nil.
	Additions *image.Additions
	VM        vm.Options
	// Source is a checkout of Mooring. If it is empty, Start uses the checkout around the working
	// directory.
	Source string
	Log    *slog.Logger
}

// Start builds the parts missing in the cache, boots a node and returns when systemd has started
// all units there, containerd included. The node ends with Stop, and at the latest with this
// process. If the node does not come up, Start keeps its logs, and the error names their directory.
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
		return nil, errors.Join(n.addLogs(ctx, err), n.stop())
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

// addLogs keeps the logs of a failed node and adds their directory to err.
func (n *Node) addLogs(ctx context.Context, err error) error {
	_, missing := os.Stat(filepath.Join(n.dir, ConsoleFile))
	if missing != nil || ctx.Err() != nil {
		return err // no boot, or interrupted
	}
	dir, logsErr := n.KeepArtefacts(ctx, "node")
	return errors.Join(fmt.Errorf("%w; its console is in %s", err, dir), logsErr)
}

// readyTimeout bounds systemd's start under TCG on a busy machine.
const readyTimeout = 10 * time.Minute

// waitReady returns when systemd has started every unit of the node.
func (n *Node) waitReady(ctx context.Context) error {
	late := fmt.Errorf("not up after %v", readyTimeout)
	ctx, cancel := context.WithTimeoutCause(ctx, readyTimeout, late)
	defer cancel()
	out, err := n.Output(ctx, "systemctl", "is-system-running", "--wait")
	if err != nil {
		failed, _ := n.Output(ctx, "systemctl", "--failed", "--no-legend")
		return fmt.Errorf("starting the node: systemd is %q: %w\n%s", out, err, failed)
	}
	return nil
}

// Attach connects to a node of another process by the state in its directory.
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

// Dir is the directory with the node's console log and its state, for Attach.
func (n *Node) Dir() string { return n.dir }

// ContainerdSocket is the path of containerd's socket in the node, for Dial.
func (n *Node) ContainerdSocket() string { return ContainerdSocket }

// Exited is closed when the node's QEMU has ended. It is nil for an attached node.
func (n *Node) Exited() <-chan struct{} {
	if n.owned == nil {
		return nil
	}
	return n.owned.Exited()
}

// Stop ends a node booted by Start, or the connection to an attached node. If the node had ended
// before, Stop returns an error with the path of the console log.
func (n *Node) Stop() error {
	var died error
	if n.owned != nil {
		if err := n.owned.Failure(); err != nil {
			died = n.addLogs(context.Background(), fmt.Errorf("the node ended by itself: %w", err))
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

// Build returns the image for Start from the cache, or builds it.
func Build(ctx context.Context, o Options) (*image.Image, error) {
	store, err := cache.Default()
	if err != nil {
		return nil, err
	}
	source, err := sourceRoot(o.Source)
	if err != nil {
		return nil, err
	}
	return image.NewBuilder(store.LogTo(o.Log), source, o.Log).BuildWith(ctx, o.Spec,
		o.Additions)
}

// QEMU is the pid of the node's QEMU, or 0 for an attached node.
func (n *Node) QEMU() int {
	if n.owned == nil {
		return 0
	}
	return n.owned.Pid()
}
