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
	"github.com/mooring-vm/mooring/hack/throwaway/cache"
	"github.com/mooring-vm/mooring/hack/throwaway/channel"
	"github.com/mooring-vm/mooring/hack/throwaway/image"
	"github.com/mooring-vm/mooring/hack/throwaway/vm"
)

const (
	runName = "kind-run"
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

// Start resumes a saved node with its cluster. If none is saved, or if the saved one does not
// continue, Start makes one first, which takes ten minutes or more on emulated processors.
func Start(ctx context.Context, o Options) (*Guest, error) {
	store, err := cache.Default()
	if err != nil {
		return nil, err
	}
	store = store.LogTo(o.Log)
	return startAgain(ctx, store, o.Log, func() (*Guest, error) { return start(ctx, store, o) })
}

func start(ctx context.Context, store *cache.Store, o Options) (_ *Guest, err error) {
	g := &Guest{}
	defer func() {
		if err != nil {
			err = errors.Join(err, g.Stop())
		}
	}()
	n, err := g.saved(ctx, store, o)
	if err != nil {
		return nil, err
	}
	if err := g.makeDir(ctx, store); err != nil {
		return nil, err
	}
	if err := g.boot(ctx, store, &n.image, n.options(), o.Log); err != nil {
		return nil, &resumeError{err}
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
	_, err = g.saved(ctx, store.LogTo(o.Log), o)
	return errors.Join(err, g.Stop())
}

func (g *Guest) makeDir(ctx context.Context, store *cache.Store) (err error) {
	if g.temp, err = store.Temp(ctx, runName); err != nil {
		return err
	}
	g.dir = g.temp.Dir
	return nil
}

// nodeOptions are the options of each boot and resume.
func nodeOptions() vm.Options {
	return vm.Options{MemoryMiB: memoryMiB, Forwards: []int{kindcluster.Port}}
}

func (g *Guest) boot(
	ctx context.Context, store *cache.Store, img *image.Image, o vm.Options, log *slog.Logger,
) (err error) {
	common := nodeOptions()
	o.MemoryMiB, o.Forwards, o.Store, o.Log = common.MemoryMiB, common.Forwards, store, log
	g.vm, err = vm.Boot(ctx, img, g.dir, o)
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
	return errors.Join(append(errs, cache.CloseAll(g.entries...))...)
}

var _ kindcluster.Host = (*Guest)(nil)
