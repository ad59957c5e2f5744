package kubevirtnode

import (
	"context"
	"fmt"
	"net/url"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// apiServerPort is the API server's port on each node. kubelet and kube-proxy connect to it on
// loopback, pods by the Service "kubernetes".
const apiServerPort = 6443

// join starts kubelet on each node and returns when the nodes are ready.
func (c *Cluster) join(ctx context.Context) error {
	server, err := url.Parse(c.Plane.Config().Host)
	if err != nil {
		return err
	}
	access, err := c.Plane.AdminKubeconfigFor(fmt.Sprintf("https://127.0.0.1:%d", apiServerPort))
	if err != nil {
		return err
	}
	g, all := errgroup.WithContext(ctx)
	for _, n := range c.Nodes {
		g.Go(func() error { return c.joinNode(all, n, access, server.Host) })
	}
	if err := g.Wait(); err != nil {
		return err
	}
	return c.serveAPI(ctx)
}

// joinNode starts kubelet on a node and returns when it is ready. Without a Node object before, a
// slow kubelet would need two more minutes.
func (c *Cluster) joinNode(ctx context.Context, n *Node, access, server string) (err error) {
	if _, err := c.client.CoreV1().Nodes().Create(ctx, &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: n.Name()}}, metav1.CreateOptions{}); err != nil {
		return err
	}
	if n.forward, err = n.Forward(fmt.Sprintf("0.0.0.0:%d", apiServerPort), server); err != nil {
		return err
	}
	if err := n.configure(ctx, c.Nodes, access); err != nil {
		return err
	}
	if _, err := n.Output(ctx, "systemctl", "start", "kubelet", "kube-proxy"); err != nil {
		return err
	}
	return c.await(ctx, n.Name()+" to be ready", func(ctx context.Context) error {
		node, err := c.client.CoreV1().Nodes().Get(ctx, n.Name(), metav1.GetOptions{})
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
}

// serveAPI makes kube-proxy lead the Service "kubernetes" to the API server's port on the nodes.
func (c *Cluster) serveAPI(ctx context.Context) error {
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Name: "kubernetes",
			Labels: map[string]string{discoveryv1.LabelServiceName: "kubernetes"}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports: []discoveryv1.EndpointPort{{Name: new("https"),
			Port: new(int32(apiServerPort))}},
	}
	for _, n := range c.Nodes {
		slice.Endpoints = append(slice.Endpoints,
			discoveryv1.Endpoint{Addresses: []string{n.address()}})
	}
	_, err := c.client.DiscoveryV1().EndpointSlices(metav1.NamespaceDefault).Create(ctx, slice,
		metav1.CreateOptions{})
	return err
}
