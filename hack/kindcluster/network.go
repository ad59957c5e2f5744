package kindcluster

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// conflist is the network of a node's pods: a point-to-point link each, with addresses of the node's
// own range. The formatted argument is that range.
const conflist = `{"cniVersion": "1.0.0", "name": "pods", "plugins": [
 {"type": "ptp", "ipMasq": false, "ipam": {"type": "host-local", "dataDir": "/run/cni-ipam-state",
  "routes": [{"dst": "0.0.0.0/0"}], "ranges": [[{"subnet": %q}]]}},
 {"type": "portmap", "capabilities": {"portMappings": true}}]}
`

// node is a node of the cluster: a container of the host's docker.
type node struct{ name, address, pods string }

// connectNodes gives each node a range of addresses for its pods, and routes to the ranges of the
// others. It returns when all nodes are ready.
func connectNodes(ctx context.Context, h Host) error {
	nodes, err := listNodes(ctx, h)
	if err != nil {
		return err
	}
	for _, n := range nodes {
		if _, err := output(ctx, h, strings.NewReader(fmt.Sprintf(conflist, n.pods)),
			"docker", "exec", "-i", n.name, "sh", "-c",
			"cat >/etc/cni/net.d/10-pods.conflist"); err != nil {
			return err
		}
		for _, other := range nodes {
			if other == n {
				continue
			}
			if _, err := output(ctx, h, nil, "docker", "exec", n.name, "ip", "route", "replace",
				other.pods, "via", other.address); err != nil {
				return err
			}
		}
	}
	_, err = kubectl(ctx, h, "wait", "--for=condition=Ready", "nodes", "--all", "--timeout=15m")
	return err
}

func listNodes(ctx context.Context, h Host) ([]node, error) {
	names, err := output(ctx, h, nil, "kind", "get", "nodes", "--name="+Name)
	if err != nil {
		return nil, err
	}
	var nodes []node
	for _, name := range strings.Fields(names) {
		n := node{name: name}
		if n.pods, err = podRange(ctx, h, name); err != nil {
			return nil, err
		}
		n.address, err = output(ctx, h, nil, "docker", "inspect",
			"--format={{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}", name)
		if err != nil {
			return nil, err
		}
		n.address = strings.TrimSpace(n.address)
		nodes = append(nodes, n)
	}
	return nodes, nil
}

// podRange waits until kube-controller-manager has given the node a range.
func podRange(ctx context.Context, h Host, name string) (string, error) {
	for {
		out, err := kubectl(ctx, h, "get", "node", name, "--output=jsonpath={.spec.podCIDR}")
		if err != nil || out != "" {
			return out, err
		}
		select {
		case <-ctx.Done():
			return "", fmt.Errorf("node %s has no range of pod addresses: %w", name,
				context.Cause(ctx))
		case <-time.After(time.Second):
		}
	}
}

// kubectl runs kubectl in the first node, because a user's machine may have none.
func kubectl(ctx context.Context, h Host, args ...string) (string, error) {
	return output(ctx, h, nil, append([]string{"docker", "exec", Name + "-control-plane", "kubectl",
		"--kubeconfig=/etc/kubernetes/admin.conf"}, args...)...)
}

// AwaitPods returns when all pods of kube-system are ready.
func AwaitPods(ctx context.Context, h Host) error {
	_, err := kubectl(ctx, h, "wait", "--for=condition=Ready", "pods", "--all",
		"--namespace=kube-system", "--timeout=15m")
	return err
}

// AwaitService returns when the first node reaches the API server by its Service. kube-proxy is
// ready before it has written its rules, and may miss a Service if the node is saved in between.
func AwaitService(ctx context.Context, h Host) error {
	address, err := kubectl(ctx, h, "get", "service", "kubernetes",
		"--output=jsonpath={.spec.clusterIP}")
	if err != nil {
		return err
	}
	for {
		_, err := kubectl(ctx, h, "get", "--raw=/version", "--server=https://"+address)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("no answer of Service kubernetes: %w: %w", context.Cause(ctx), err)
		case <-time.After(time.Second):
		}
	}
}
