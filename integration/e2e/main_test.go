package e2e

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
)

const (
	chart  = "../../deploy/helm/mooring"
	system = "mooring-system"
	// namespace of the suite's pods. The policy's rule names it.
	namespace = "mooring-e2e"
)

// patience bounds one wait. A pod of an emulated node takes half a minute to start.
const patience = 10 * time.Minute

// Variables name the images. Without them the suite does not run. envAgain allows a cluster
// with Mooring from an interrupted run.
const (
	envRegistry = "MOORING_E2E_REGISTRY"
	envTag      = "MOORING_E2E_TAG"
	envAgain    = "MOORING_E2E_AGAIN"
)

// cluster is the cluster of $KUBECONFIG.
type cluster struct {
	config *rest.Config
	client kubernetes.Interface
	// installed is true while the cluster has this version of Mooring in mode enforce.
	installed bool
	// wroteDropIn is true while nodes have the drop-in of the chart's container.
	wroteDropIn bool
}

// shared is set by TestMain unless the suite does not run.
var shared *cluster

func TestMain(m *testing.M) {
	if os.Getenv(envRegistry) == "" || os.Getenv(envTag) == "" {
		os.Exit(m.Run()) // each test skips and says why
	}
	os.Exit(run(m))
}

func run(m *testing.M) int {
	ctx := context.Background()
	ctrllog.SetLogger(logr.Discard())
	c, err := connect()
	if err == nil {
		err = c.checkEmpty(ctx)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "preparing the cluster:", err)
		return 1
	}
	shared = c
	code := m.Run()
	if err := c.removeKubeVirt(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "removing the stand-in of KubeVirt:", err)
		return 1
	}
	return code
}

// start returns the cluster with Mooring. The first call installs it.
func start(t *testing.T) *cluster {
	t.Helper()
	c := startWithout(t)
	if !c.installed {
		c.install(t, current(), "enforce")
		c.configureContainerd(t)
		c.installed = true
	}
	return c
}

// startWithout returns the cluster, with or without Mooring.
func startWithout(t *testing.T) *cluster {
	t.Helper()
	if shared == nil {
		t.Skipf("needs a cluster and images in $%s and $%s; `make kind` has both", envRegistry,
			envTag)
	}
	return shared
}

// connect uses $KUBECONFIG only: the suite must not reach a user's usual cluster by accident.
func connect() (*cluster, error) {
	if os.Getenv(clientcmd.RecommendedConfigPathEnvVar) == "" {
		return nil, fmt.Errorf("$%s is not set: want the kubeconfig of a test cluster",
			clientcmd.RecommendedConfigPathEnvVar)
	}
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(
		clientcmd.NewDefaultClientConfigLoadingRules(), nil).ClientConfig()
	if err != nil {
		return nil, err
	}
	config.QPS, config.Burst = 50, 100
	client, err := kubernetes.NewForConfig(config)
	return &cluster{config: config, client: client}, err
}

// image is the reference of one of the suite's images.
func image(name string) string { return imageOf(name, os.Getenv(envTag)) }

func imageOf(name, tag string) string { return os.Getenv(envRegistry) + "/" + name + ":" + tag }

// checkEmpty refuses a cluster with Mooring, because the suite's last test uninstalls it.
func (c *cluster) checkEmpty(ctx context.Context) error {
	_, err := c.client.CoreV1().Namespaces().Get(ctx, system, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err), err == nil && os.Getenv(envAgain) != "":
		return nil
	case err != nil:
		return err
	}
	return fmt.Errorf("the cluster %s has a namespace %s: want a cluster without Mooring, or $%s=1 "+
		"after a run that was cut off; the suite uninstalls Mooring", c.config.Host, system,
		envAgain)
}

// helm runs Helm without the user's configuration, and returns its output.
func helm(ctx context.Context, args ...string) (string, error) {
	home, err := os.MkdirTemp("", "mooring-helm-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(home)
	cmd := exec.CommandContext(ctx, "go", append([]string{"tool",
		"-modfile=" + filepath.Join("..", "..", "tools", "go.mod"), "helm"}, args...)...)
	cmd.Env = append(os.Environ(), "HELM_CACHE_HOME="+home, "HELM_CONFIG_HOME="+home,
		"HELM_DATA_HOME="+home)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("helm %s: %w\n%s", args[0], err, errs.String())
	}
	return out.String(), nil
}
