package guest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"time"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/mooring-vm/mooring/hack/kindcluster"
	"github.com/mooring-vm/mooring/hack/kindcluster/nodeimage"
	"github.com/mooring-vm/mooring/hack/throwaway/cache"
	"github.com/mooring-vm/mooring/hack/throwaway/channel"
	"github.com/mooring-vm/mooring/hack/throwaway/image"
	"github.com/mooring-vm/mooring/hack/throwaway/vm"
)

const (
	savedCache = "kind-saved"
	stateFile  = "state"
	runName    = "kind-run"
	// Memory of the node. The cluster takes 1.3 GiB.
	memoryMiB = 6144
	// createTimeout bounds the making of a cluster on emulated processors of a busy machine.
	createTimeout = 45 * time.Minute
)

// Options of Start.
type Options struct {
	// Source is a checkout of Mooring.
	Source string
	// Workers is the number of the cluster's nodes besides the control plane.
	Workers int
	Log     *slog.Logger
}

// Guest is a running throw-away node with a cluster. It ends with Stop, and at the latest with this
// process.
type Guest struct {
	*channel.Client
	dir     string
	vm      *vm.VM // nil if attached
	temp    *cache.Temp
	entries []*cache.Entry
}

// Start resumes a saved node with its cluster. If none is saved, Start makes one first, which takes
// ten minutes or more on emulated processors.
func Start(ctx context.Context, o Options) (_ *Guest, err error) {
	store, err := cache.Default()
	if err != nil {
		return nil, err
	}
	store = store.LogTo(o.Log)
	g := &Guest{}
	defer func() {
		if err != nil {
			err = errors.Join(err, g.Stop())
		}
	}()
	d, saved, err := g.saved(ctx, store, o)
	if err != nil {
		return nil, err
	}
	d.image.Disk = filepath.Join(saved.Dir, diskFile)
	if err := g.makeDir(ctx, store); err != nil {
		return nil, err
	}
	saving := &vm.Saving{Initramfs: d.initramfs, State: filepath.Join(saved.Dir, stateFile)}
	if err := g.boot(ctx, store, &d.image, saving, saved.Dir, o.Log); err != nil {
		return nil, err
	}
	return g, g.setClock(ctx)
}

// Build makes and saves the cluster for Start, or finds it in the cache.
func Build(ctx context.Context, o Options) error {
	store, err := cache.Default()
	if err != nil {
		return err
	}
	g := &Guest{}
	_, _, err = g.saved(ctx, store.LogTo(o.Log), o)
	return errors.Join(err, g.Stop())
}

// saved returns the saved node for these options.
func (g *Guest) saved(
	ctx context.Context, store *cache.Store, o Options,
) (*disk, *cache.Entry, error) {
	debian := image.NewBuilder(store, o.Source, o.Log)
	builder := &builder{store: store, debian: debian, log: o.Log}
	images := &nodeimage.Builder{Store: store, Debian: debian, Log: o.Log}
	node, err := images.Build(ctx)
	if err != nil {
		return nil, nil, err
	}
	defer node.Close()
	d, err := builder.disk(ctx, node)
	if err != nil {
		return nil, nil, err
	}
	g.entries = d.entries
	cluster := kindcluster.Options{Image: node.Reference, OwnNetwork: true, Workers: o.Workers,
		Emulated: true}
	text, err := kindcluster.Config(cluster)
	if err != nil {
		return nil, nil, err
	}
	key := cache.KeyOf(string(d.key), text)
	saved, err := store.Get(ctx, savedCache, key, func(ctx context.Context, dir string) error {
		return create(ctx, store, d, cluster, dir, o.Log)
	})
	if err != nil {
		return nil, nil, err
	}
	g.entries = append(g.entries, saved)
	_, err = store.Prune(savedCache, 1)
	return d, saved, err
}

// create boots a node from a copy of the disk in dir, makes the cluster there, and saves the node.
func create(
	ctx context.Context, store *cache.Store, d *disk, o kindcluster.Options, dir string,
	log *slog.Logger,
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
	saving := &vm.Saving{Initramfs: d.initramfs, Writable: true}
	if err := g.boot(ctx, store, &img, saving, "", log); err != nil {
		return err
	}
	if err := kindcluster.Create(ctx, g, o); err != nil {
		return err
	}
	if err := kindcluster.AwaitPods(ctx, g); err != nil {
		return err
	}
	// Memory of cached files would make the saved state larger.
	if _, err := g.Output(ctx, "sh", "-c", "sync; echo 3 >/proc/sys/vm/drop_caches"); err != nil {
		return err
	}
	return errors.Join(g.vm.SaveState(ctx, filepath.Join(dir, stateFile), log), g.vm.SaveKeys(dir))
}

func (g *Guest) makeDir(ctx context.Context, store *cache.Store) (err error) {
	if g.temp, err = store.Temp(ctx, runName); err != nil {
		return err
	}
	g.dir = g.temp.Dir
	return nil
}

func (g *Guest) boot(
	ctx context.Context, store *cache.Store, img *image.Image, saving *vm.Saving, keys string,
	log *slog.Logger,
) (err error) {
	g.vm, err = vm.Boot(ctx, img, g.dir, vm.Options{
		MemoryMiB: memoryMiB, Store: store, Log: log, Saving: saving, Keys: keys,
		Forwards: []int{kindcluster.Port},
	})
	if err != nil {
		return err
	}
	if g.Client, err = channel.Connect(ctx, g.vm.Target); err != nil {
		return err
	}
	return g.awaitDocker(ctx, log)
}

// awaitDocker returns when systemd has started all units. A failed unit other than docker's does not
// matter.
func (g *Guest) awaitDocker(ctx context.Context, log *slog.Logger) error {
	if _, err := g.Output(ctx, "systemctl", "is-system-running", "--wait"); err == nil {
		return nil
	}
	failed, _ := g.Output(ctx, "systemctl", "--failed", "--no-legend", "--plain")
	if _, err := g.Output(ctx, "docker", "version"); err != nil {
		return fmt.Errorf("starting docker: %w\nfailed units:\n%s", err, failed)
	}
	log.Warn("units of the node failed", "units", failed)
	return nil
}

// setClock gives the node the time of this machine. A resumed node has the time of its saving.
func (g *Guest) setClock(ctx context.Context) error {
	_, err := g.Output(ctx, "date", "--utc", fmt.Sprintf("--set=@%d", time.Now().Unix()))
	return err
}

// Share implements kindcluster.Host. It copies the file.
func (g *Guest) Share(
	ctx context.Context, file string,
) (path string, remove func() error, err error) {
	path = "/tmp/" + filepath.Base(file)
	remove = func() error {
		_, err := g.Output(context.WithoutCancel(ctx), "rm", "-f", path)
		return err
	}
	return path, remove, g.Push(ctx, file, path, 0o600)
}

// Kubeconfig writes a kubeconfig file for this machine.
func (g *Guest) Kubeconfig(ctx context.Context, file string) error {
	text, err := kindcluster.Kubeconfig(ctx, g)
	if err != nil {
		return err
	}
	config, err := clientcmd.Load([]byte(text))
	if err != nil {
		return fmt.Errorf("reading the cluster's kubeconfig: %w", err)
	}
	for _, c := range config.Clusters {
		c.Server = fmt.Sprintf("https://127.0.0.1:%d", g.vm.Forwards[0].Local)
		c.TLSServerName = "localhost"
	}
	return clientcmd.WriteToFile(*config, file)
}

// Dir is the directory with the node's console log and its state.
func (g *Guest) Dir() string { return g.dir }

// Exited is closed when the node's QEMU has ended.
func (g *Guest) Exited() <-chan struct{} { return g.vm.Exited() }

// Stop ends the node.
func (g *Guest) Stop() error {
	var errs []error
	if g.Client != nil {
		errs = append(errs, g.Client.Close())
	}
	if g.vm != nil {
		g.vm.Stop()
	}
	if g.temp != nil {
		errs = append(errs, g.temp.Close())
	}
	for _, e := range g.entries {
		errs = append(errs, e.Close())
	}
	return errors.Join(errs...)
}

var _ kindcluster.Host = (*Guest)(nil)
