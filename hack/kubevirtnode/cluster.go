package kubevirtnode

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/mooring-vm/mooring/hack/kube"
	"github.com/mooring-vm/mooring/hack/kubevirt"
	"github.com/mooring-vm/mooring/hack/throwaway"
)

// DeviceResource is the resource of the node's unused network controllers, for a VM's hostDevices.
// Bind one to vfio-pci first.
const DeviceResource = "example.org/nic"

// configuration of KubeVirt: no KVM, and CPU limits for its helper containers. With the default of
// 10 to 15 thousandths of a CPU, each needs half a minute to start on an emulated node.
const configuration = `{
  "developerConfiguration": {"useEmulation": true, "featureGates": ["Sidecar", "HostDevices"]},
  "permittedHostDevices": {"pciHostDevices": [
    {"pciVendorSelector": "8086:10D3", "resourceName": "` + DeviceResource + `"}
  ]},
  "supportContainerResources": [
    {"type": "container-disk", "resources": {"limits": {"cpu": "2", "memory": "40M"}}},
    {"type": "guest-console-log", "resources": {"limits": {"cpu": "2", "memory": "60M"}}},
    {"type": "sidecar", "resources": {"limits": {"cpu": "2", "memory": "64M"}}}
  ]
}`

// apiServerPort is the API server's port on the node. kubelet and kube-proxy connect to it on
// loopback, pods by the Service "kubernetes".
const apiServerPort = 6443

// Options of Start.
type Options struct {
	// Archives are files with further container images, as `docker save` writes them.
	Archives []string
	Log      *slog.Logger
}

// Cluster is a control plane and KubeVirt's controllers on this machine, and a node with
// virt-handler. Everything ends with Stop, and at the latest with this process.
type Cluster struct {
	Plane    *kube.ControlPlane
	KubeVirt *kubevirt.KubeVirt
	Node     *throwaway.Node

	builder *builder
	client  kubernetes.Interface
	dir     string
	proxy   *proxy
	forward io.Closer
}

// Start builds the parts missing in the cache, starts the cluster and returns when virt-handler is
// ready.
func Start(ctx context.Context, o Options) (_ *Cluster, err error) {
	c := &Cluster{}
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
	g, both := errgroup.WithContext(ctx)
	g.Go(func() (err error) {
		c.Node, err = startNode(both, c.builder, o.Archives)
		return err
	})
	g.Go(func() error { return c.startPlane(both, o.Log) })
	if err := g.Wait(); err != nil {
		return nil, err
	}
	c.proxy.connect(c.Node)
	if err := c.join(ctx); err != nil {
		return nil, fmt.Errorf("joining the node: %w", err)
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
	c.KubeVirt, err = kubevirt.Start(ctx, c.Plane, kubevirt.Options{Log: log, LauncherImage: Image,
		Configuration: configuration})
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

// join starts kubelet and returns when the node is ready. Without a Node object before, a slow
// kubelet would need two more minutes.
func (c *Cluster) join(ctx context.Context) error {
	server, err := url.Parse(c.Plane.Config().Host)
	if err != nil {
		return err
	}
	if _, err := c.client.CoreV1().Nodes().Create(ctx, &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: NodeName}}, metav1.CreateOptions{}); err != nil {
		return err
	}
	if c.forward, err = c.Node.Forward(fmt.Sprintf("0.0.0.0:%d", apiServerPort),
		server.Host); err != nil {
		return err
	}
	access, err := c.Plane.AdminKubeconfigFor(fmt.Sprintf("https://127.0.0.1:%d", apiServerPort))
	if err != nil {
		return err
	}
	if err := c.Node.Push(ctx, access, kubeletConf, 0o600); err != nil {
		return err
	}
	if _, err := c.Node.Output(ctx, "systemctl", "start", "kubelet", "kube-proxy"); err != nil {
		return err
	}
	node, err := c.awaitNode(ctx)
	if err != nil {
		return err
	}
	return c.serveAPI(ctx, node)
}

// awaitNode returns the node when it is ready.
func (c *Cluster) awaitNode(ctx context.Context) (node *corev1.Node, err error) {
	err = c.await(ctx, "the node to be ready", func(ctx context.Context) (err error) {
		node, err = c.client.CoreV1().Nodes().Get(ctx, NodeName, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, condition := range node.Status.Conditions {
			if condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionTrue {
				return nil
			}
		}
		return fmt.Errorf("conditions are %v", node.Status.Conditions)
	})
	return node, err
}

// serveAPI makes kube-proxy lead the Service "kubernetes" to the API server's address on the node.
func (c *Cluster) serveAPI(ctx context.Context, node *corev1.Node) error {
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Name: "kubernetes",
			Labels: map[string]string{discoveryv1.LabelServiceName: "kubernetes"}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports: []discoveryv1.EndpointPort{{Name: new("https"),
			Port: new(int32(apiServerPort))}},
	}
	for _, a := range node.Status.Addresses {
		if a.Type == corev1.NodeInternalIP {
			slice.Endpoints = append(slice.Endpoints,
				discoveryv1.Endpoint{Addresses: []string{a.Address}})
		}
	}
	_, err := c.client.DiscoveryV1().EndpointSlices(metav1.NamespaceDefault).Create(ctx, slice,
		metav1.CreateOptions{})
	return err
}

// Stop ends the cluster and removes its files.
func (c *Cluster) Stop() error {
	var errs []error
	if c.forward != nil {
		errs = append(errs, c.forward.Close())
	}
	if c.Node != nil {
		errs = append(errs, c.Node.Stop())
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
