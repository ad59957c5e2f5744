package kubevirtnode

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1 "k8s.io/api/core/v1"

	"github.com/mooring-vm/mooring/hack/kubevirtnode"
	"github.com/mooring-vm/mooring/hack/throwaway"
)

const (
	system = "mooring-system"
	// namespace of the VMs. The policy's rule names it.
	namespace = "vms"
)

// patience bounds one wait. On a busy machine, the parts of an emulated node stand still for a
// minute.
const patience = 15 * time.Minute

// Variables name the images on the node. Without them the suite does not run.
const (
	envRegistry = "MOORING_E2E_REGISTRY"
	envTag      = "MOORING_E2E_TAG"
)

// cluster is the cluster of $KUBECONFIG with its nodes.
type cluster struct {
	client.Client
	node  *throwaway.Node // for commands
	nodes map[string]*throwaway.Node
}

// on is the cluster with another node for commands.
func (c *cluster) on(t *testing.T, node string) *cluster {
	t.Helper()
	if c.nodes[node] == nil {
		t.Fatalf("no way into node %q", node)
	}
	return &cluster{Client: c.Client, node: c.nodes[node], nodes: c.nodes}
}

var shared = sync.OnceValues(connect)

// start returns the cluster. It does not have Mooring before requireMooring.
func start(t *testing.T) *cluster {
	t.Helper()
	if os.Getenv(envRegistry) == "" || os.Getenv(envTag) == "" {
		t.Skipf("needs a cluster with KubeVirt and images in $%s and $%s; `make kubevirt` has them",
			envRegistry, envTag)
	}
	c, err := shared()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// connect uses $KUBECONFIG only: the suite must not reach a user's usual cluster by accident.
func connect() (*cluster, error) {
	kubeconfig := os.Getenv(clientcmd.RecommendedConfigPathEnvVar)
	if kubeconfig == "" {
		return nil, fmt.Errorf("$%s is not set: want the kubeconfig of a test cluster",
			clientcmd.RecommendedConfigPathEnvVar)
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		return nil, err
	}
	if err := kubevirtv1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	ctx := context.Background()
	c := &cluster{}
	if c.Client, err = client.New(config, client.Options{Scheme: scheme}); err != nil {
		return nil, err
	}
	if err := c.attach(ctx); err != nil {
		return nil, err
	}
	err = c.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return nil, err
	}
	return c, nil
}

// attach connects to the nodes. Commands run on the first one.
func (c *cluster) attach(ctx context.Context) (err error) {
	if c.node, err = throwaway.AttachCurrent(ctx); err != nil {
		return err
	}
	c.nodes = map[string]*throwaway.Node{kubevirtnode.NodeName(1): c.node}
	if dir := os.Getenv(kubevirtnode.EnvSecondNode); dir != "" {
		c.nodes[kubevirtnode.NodeName(2)], err = throwaway.Attach(ctx, dir)
	}
	return err
}

// hasMooring reports whether Mooring is installed.
func (c *cluster) hasMooring(ctx context.Context) (bool, error) {
	err := c.Get(ctx, client.ObjectKey{Name: system}, &corev1.Namespace{})
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	return err == nil, err
}

// top is the root of the checkout.
var top = filepath.Join("..", "..")

// eventually calls check until it returns nil. After the deadline it fails t with the last error.
func eventually(t *testing.T, what string, check func(ctx context.Context) error) {
	t.Helper()
	if err := await(t.Context(), what, check); err != nil {
		t.Fatal(err)
	}
}

func await(ctx context.Context, what string, check func(ctx context.Context) error) error {
	last := error(nil)
	err := wait.PollUntilContextTimeout(ctx, time.Second, patience, true,
		func(ctx context.Context) (bool, error) {
			if err := check(ctx); err == nil || ctx.Err() == nil {
				last = err // the deadline's own error says less than the one before
			}
			return last == nil, nil
		})
	if err != nil {
		return fmt.Errorf("waiting for %s: %w: %w", what, err, last)
	}
	return nil
}
