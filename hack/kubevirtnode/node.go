package kubevirtnode

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/mooring-vm/mooring/hack/kube"
	"github.com/mooring-vm/mooring/hack/throwaway"
	"github.com/mooring-vm/mooring/hack/throwaway/image"
	"github.com/mooring-vm/mooring/hack/throwaway/vm"
)

// MaxNodes is the largest number of nodes. A cable joins two.
const MaxNodes = 2

// EnvSecondNode names the environment variable with the directory of the second node, as
// throwaway.EnvNode does for the first one.
const EnvSecondNode = "MOORING_NODE_2"

// Files of a node that the cluster writes.
const (
	kubeletConf = "/etc/kubernetes/kubelet.conf" // access to the API server
	nodeEnv     = "/etc/kubernetes/node.env"     // name and address
	podsConf    = "/etc/cni/net.d/05-pods.conflist"
)

// Node is a node of the cluster.
type Node struct {
	*throwaway.Node
	number  int // from 1
	link    vm.Link
	forward io.Closer // to the API server
}

// Name is the name of the Node object.
func (n *Node) Name() string { return NodeName(n.number) }

// NodeName is the name of a node by its number, from 1.
func NodeName(number int) string { return fmt.Sprintf("node-%d", number) }

// address is the node's address on the cable. Pods of both nodes reach it.
func (n *Node) address() string { return fmt.Sprintf("10.89.0.%d", n.number) }

// pods are the addresses of the node's pods.
func (n *Node) pods() string { return fmt.Sprintf("10.88.%d.0/24", n.number) }

// newNodes returns the nodes before their boot, joined by a cable with this socket.
func newNodes(number int, socket string) (nodes []*Node) {
	for i := range number {
		nodes = append(nodes, &Node{number: i + 1, link: vm.Link{Socket: socket, Listens: i == 0}})
	}
	return nodes
}

// boot starts the node with kubelet, the guest's image and these archives of images.
func (n *Node) boot(ctx context.Context, b *builder, archives []string) error {
	temp, err := os.MkdirTemp("", "mooring-kubevirt-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temp)
	guest := filepath.Join(temp, "guest.tar")
	if err := writeGuestImage(ctx, guest); err != nil {
		return err
	}
	files, err := nodeFiles(ctx, b)
	if err != nil {
		return err
	}
	n.Node, err = throwaway.Start(ctx, throwaway.Options{Spec: image.DefaultSpec(), Log: b.log,
		VM: vm.Options{Link: &n.link},
		Additions: &image.Additions{Files: files, Archives: append([]string{guest},
			archives...)}})
	return err
}

func (n *Node) stop() error {
	var errs []error
	if n.forward != nil {
		errs = append(errs, n.forward.Close())
	}
	if n.Node != nil {
		errs = append(errs, n.Stop())
	}
	return errors.Join(errs...)
}

// nodeFiles are kubelet, kube-proxy and their units.
func nodeFiles(ctx context.Context, b *builder) (image.Files, error) {
	programs, err := kube.Build(ctx, b.log)
	if err != nil {
		return nil, err
	}
	defer programs.Close()
	kubelet, err := os.ReadFile(filepath.Join(programs.Dir, "kubelet"))
	if err != nil {
		return nil, err
	}
	files := image.Files{"usr/local/bin/kubelet": {Content: kubelet, Mode: 0o755}}
	for name, to := range map[string]string{
		"kubelet.yaml":       "etc/kubernetes/kubelet.yaml",
		"kubelet.service":    "etc/systemd/system/kubelet.service",
		"kube-proxy.service": "etc/systemd/system/kube-proxy.service",
	} {
		content, err := embedded.ReadFile("files/" + name)
		if err != nil {
			return nil, err
		}
		files[to] = image.File{Content: content, Mode: 0o644}
	}
	return files, nil
}

// configure sets up the network to the other nodes, and writes the files of kubelet.
func (n *Node) configure(ctx context.Context, all []*Node, access string) error {
	if _, err := n.Output(ctx, "sh", "-ec", `
		link=$(basename "$(dirname "$(grep -l "$1" /sys/class/net/*/address)")")
		ip address add "$2/24" dev "$link"
		ip link set "$link" up`, "sh", n.link.MAC(), n.address()); err != nil {
		return fmt.Errorf("setting up the cable: %w", err)
	}
	for _, other := range all {
		if other.number == n.number {
			continue
		}
		if _, err := n.Output(ctx, "ip", "route", "add", other.pods(), "via",
			other.address()); err != nil {
			return fmt.Errorf("setting up the route to the pods of %s: %w", other.Name(), err)
		}
	}
	pods, err := embedded.ReadFile("files/pods.conflist")
	if err != nil {
		return err
	}
	pods = bytes.ReplaceAll(pods, []byte("PODS"), []byte(n.pods()))
	if err := n.PushFrom(ctx, bytes.NewReader(pods), podsConf, 0o644); err != nil {
		return err
	}
	env := fmt.Sprintf("NODE_NAME=%s\nNODE_ADDRESS=%s\n", n.Name(), n.address())
	if err := n.PushFrom(ctx, bytes.NewReader([]byte(env)), nodeEnv, 0o644); err != nil {
		return err
	}
	return n.Push(ctx, access, kubeletConf, 0o600)
}
