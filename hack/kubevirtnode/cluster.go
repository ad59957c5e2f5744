package kubevirtnode

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/kubernetes"

	"github.com/mooring-vm/mooring/hack/kube"
	"github.com/mooring-vm/mooring/hack/kubevirt"
)

// DeviceResource is the resource of the node's unused network controllers, for a VM's hostDevices.
// Bind one to vfio-pci first.
const DeviceResource = "example.org/nic"

// Options of Start.
type Options struct {
	// Nodes is the number of nodes, from 1 to MaxNodes. 0 means 1.
	Nodes int
	// Archives are files with further container images, as `docker save` writes them.
	Archives []string
	// Upgrade is the version for [Cluster.Upgrade], such as 1.9. Empty: no upgrade.
	Upgrade string
	Log     *slog.Logger
}

// Cluster is a control plane and KubeVirt's controllers on this machine, and nodes with
// virt-handler. Everything ends with Stop, and at the latest with this process.
type Cluster struct {
	Plane    *kube.ControlPlane
	KubeVirt *kubevirt.KubeVirt
	Nodes    []*Node

	upgrade string // version

	stopServing context.CancelFunc // ends serving; nil: nothing serves
	serving     sync.WaitGroup

	builder *builder
	client  kubernetes.Interface
	dir     string
	proxy   *proxy
}

// Start builds the parts missing in the cache, starts the cluster and returns when virt-handler is
// ready on each node.
func Start(ctx context.Context, o Options) (_ *Cluster, err error) {
	if o.Nodes < 0 || o.Nodes > MaxNodes {
		return nil, fmt.Errorf("%d nodes: want 1 to %d", o.Nodes, MaxNodes)
	}
	c := &Cluster{upgrade: o.Upgrade}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.Stop())
		}
	}()
	if c.builder, err = newBuilder(o.Log); err != nil {
		return nil, err
	}
	if c.dir, err = os.MkdirTemp("", "mooring-kubevirt-"); err != nil {
		return nil, err
	}
	if c.proxy, err = startProxy(c.dir); err != nil {
		return nil, err
	}
	images, err := c.buildImages(ctx)
	if err != nil {
		return nil, err
	}
	defer images.Close()
	archives := append(images.archives(), o.Archives...)
	c.Nodes = newNodes(max(1, o.Nodes), filepath.Join(c.dir, "link.sock"))
	g, all := errgroup.WithContext(ctx)
	for _, n := range c.Nodes {
		g.Go(func() error { return n.boot(all, c.builder, archives) })
	}
	g.Go(func() error { return c.startPlane(all, o.Log) })
	if err := g.Wait(); err != nil {
		return nil, err
	}
	c.proxy.connect(c.Nodes[0]) // it leads to the other ones
	if err := c.join(ctx); err != nil {
		return nil, fmt.Errorf("joining the nodes: %w", err)
	}
	if err := c.startHandler(ctx); err != nil {
		return nil, fmt.Errorf("starting virt-handler: %w", err)
	}
	return c, nil
}

// startPlane starts everything on this machine.
func (c *Cluster) startPlane(ctx context.Context, log *slog.Logger) (err error) {
	c.Plane, err = kube.Start(ctx, kube.Options{Log: log, NodeProxy: c.proxy.socket})
	if err != nil {
		return err
	}
	if c.client, err = kubernetes.NewForConfig(c.Plane.Config()); err != nil {
		return err
	}
	ca := filepath.Join(c.dir, "ca.crt")
	if err := os.WriteFile(ca, c.Plane.Config().CAData, 0o600); err != nil {
		return err
	}
	if _, err := c.Plane.StartControllersWith(ctx, []string{"--root-ca-file=" + ca},
		controllers()...); err != nil {
		return err
	}
	if _, err := c.Plane.StartScheduler(); err != nil {
		return err
	}
	c.KubeVirt, err = kubevirt.Start(ctx, c.Plane, kubevirt.Options{Log: log,
		LauncherImage: imageName(), Configuration: configuration()})
	if err != nil {
		return err
	}
	return c.KubeVirt.SetVersion(ctx)
}

// controllers of kube-controller-manager.
func controllers() []string {
	return []string{
		"serviceaccount-controller", "root-ca-certificate-publisher-controller",
		"namespace-controller", "garbage-collector-controller", "disruption-controller",
		"daemonset-controller", "deployment-controller", "replicaset-controller",
		"job-controller", "endpointslice-controller", "endpoints-controller",
		"node-lifecycle-controller", "resourcequota-controller",
		"clusterrole-aggregation-controller", "pod-garbage-collector-controller",
	}
}

// Stop ends the cluster and removes its files.
func (c *Cluster) Stop() error {
	if c.stopServing != nil {
		c.stopServing()
		c.serving.Wait()
	}
	var errs []error
	for _, n := range c.Nodes {
		errs = append(errs, n.stop())
	}
	if c.KubeVirt != nil {
		errs = append(errs, c.KubeVirt.Stop())
	}
	if c.Plane != nil {
		errs = append(errs, c.Plane.Stop())
	}
	if c.proxy != nil {
		errs = append(errs, c.proxy.Close())
	}
	if c.dir != "" {
		errs = append(errs, os.RemoveAll(c.dir))
	}
	*c = Cluster{}
	return errors.Join(errs...)
}
