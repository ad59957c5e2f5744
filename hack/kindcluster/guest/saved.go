package guest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"

	"github.com/mooring-vm/mooring/hack/kindcluster"
	"github.com/mooring-vm/mooring/hack/kindcluster/nodeimage"
	"github.com/mooring-vm/mooring/hack/throwaway/cache"
	"github.com/mooring-vm/mooring/hack/throwaway/image"
	"github.com/mooring-vm/mooring/hack/throwaway/vm"
)

const (
	savedCache = "kind-saved"
	stateFile  = "state"
)

// savedNode is a node with a cluster, saved by QEMU.
type savedNode struct {
	image       image.Image
	initramfs   string
	accelerator vm.Accelerator
	// dir has the disk, the state of memory and devices, and the keys of the command channel.
	dir string
}

// options of the boot that continues the node.
func (n *savedNode) options() vm.Options {
	return vm.Options{
		// With a fixed accelerator, a failed resume is no verdict about this machine's KVM.
		Accelerator: n.accelerator,
		Saving:      &vm.Saving{Initramfs: n.initramfs, State: filepath.Join(n.dir, stateFile)},
		Keys:        n.dir,
	}
}

// saved returns the saved node for these options from the cache, or makes one.
func (g *Guest) saved(ctx context.Context, store *cache.Store, o Options) (*savedNode, error) {
	debian := image.NewBuilder(store, o.Source, o.Log)
	builder := &builder{store: store, debian: debian, log: o.Log}
	images := &nodeimage.Builder{Store: store, Debian: debian, Log: o.Log}
	node, err := images.Build(ctx)
	if err != nil {
		return nil, err
	}
	defer node.Close()
	d, err := builder.disk(ctx, node)
	if err != nil {
		return nil, err
	}
	g.entries = append(g.entries, d.entries...)
	cluster := kindcluster.Options{Image: node.Reference, OwnNetwork: true, Workers: o.Workers,
		Emulated: true}
	n, err := g.savedOnce(ctx, store, d, cluster, o.Log)
	if errors.Is(err, errAccelerator) {
		return g.savedOnce(ctx, store, d, cluster, o.Log)
	}
	return n, err
}

// errAccelerator reports a node that booted under another accelerator than the probe had found.
var errAccelerator = errors.New("the node booted under another accelerator")

func (g *Guest) savedOnce(
	ctx context.Context, store *cache.Store, d *disk, cluster kindcluster.Options, log *slog.Logger,
) (*savedNode, error) {
	accelerator, err := vm.Probe(ctx, store, vm.Config{Kernel: d.image.Kernel, QEMU: d.image.QEMU})
	if err != nil {
		return nil, err
	}
	key, err := savedKey(d, cluster, accelerator)
	if err != nil {
		return nil, err
	}
	entry, err := store.Get(ctx, savedCache, key, func(ctx context.Context, dir string) error {
		return create(ctx, store, d, cluster, accelerator, dir, log)
	})
	if err != nil {
		return nil, err
	}
	g.entries = append(g.entries, entry)
	n := &savedNode{image: d.image, initramfs: d.initramfs, accelerator: accelerator,
		dir: entry.Dir}
	n.image.Disk = filepath.Join(entry.Dir, diskFile)
	_, err = store.Prune(savedCache, 1)
	return n, err
}

// savedKey covers everything that a saved state depends on: the cluster, and the machine that QEMU
// emulates, with its accelerator, memory and devices. The paths of kernel, disk and QEMU have the
// keys of their content.
func savedKey(
	d *disk, cluster kindcluster.Options, accelerator vm.Accelerator,
) (cache.Key, error) {
	config, err := kindcluster.Config(cluster)
	if err != nil {
		return "", err
	}
	o := nodeOptions()
	o.Accelerator, o.Saving = accelerator, &vm.Saving{Initramfs: d.initramfs, Writable: true}
	return cache.KeyOf(append(vm.CommandLine(&d.image, o), config)...), nil
}

// create boots a node from a copy of the disk in dir, makes the cluster there, and saves the node.
func create(
	ctx context.Context, store *cache.Store, d *disk, o kindcluster.Options,
	accelerator vm.Accelerator, dir string, log *slog.Logger,
) (err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, createTimeout,
		fmt.Errorf("no cluster after %v", createTimeout))
	defer cancel()
	log.Info("making the cluster, ten minutes or more on emulated processors")
	img := d.image
	img.Disk = filepath.Join(dir, diskFile)
	b := &builder{store: store, log: log}
	if err := b.run(ctx, "cp", "--sparse=always", d.image.Disk, img.Disk); err != nil {
		return err
	}
	g := &Guest{}
	if err := g.makeDir(ctx, store); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, g.Stop()) }()
	if err := g.boot(ctx, store, &img, vm.Options{
		Saving: &vm.Saving{Initramfs: d.initramfs, Writable: true},
	}, log); err != nil {
		return err
	}
	if g.vm.Accelerator != accelerator {
		return errAccelerator
	}
	if err := kindcluster.Create(ctx, g, o); err != nil {
		return err
	}
	if err := kindcluster.AwaitPods(ctx, g); err != nil {
		return err
	}
	if err := kindcluster.AwaitService(ctx, g); err != nil {
		return err
	}
	// Memory of cached files would make the saved state larger.
	if _, err := g.Output(ctx, "sh", "-c", "sync; echo 3 >/proc/sys/vm/drop_caches"); err != nil {
		return err
	}
	return errors.Join(g.vm.SaveState(ctx, filepath.Join(dir, stateFile), log), g.vm.SaveKeys(dir))
}

// resumeError reports a saved node that did not continue.
type resumeError struct{ err error }

func (e *resumeError) Error() string { return "resuming the saved cluster: " + e.err.Error() }
func (e *resumeError) Unwrap() error { return e.err }

// startAgain calls start. If a saved node did not continue, it removes saved nodes without users
// from the cache, and calls start once more.
func startAgain(
	ctx context.Context, store *cache.Store, log *slog.Logger, start func() (*Guest, error),
) (*Guest, error) {
	g, err := start()
	var failed *resumeError
	if !errors.As(err, &failed) || ctx.Err() != nil {
		return g, err
	}
	log.Warn("the saved cluster does not continue: making a new one", "error", failed.err)
	if _, err := store.Prune(savedCache, 0); err != nil {
		return nil, errors.Join(failed, err)
	}
	return start()
}
