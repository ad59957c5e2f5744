package cli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/mooring-vm/mooring/agent/admin"
	"github.com/mooring-vm/mooring/internal/kubeclient"
)

// clusterTimeout bounds a question to the API server.
const clusterTimeout = 30 * time.Second

const kubeconfigFlag = "kubeconfig"

// clusterFlags say whether an API server is asked, and which.
type clusterFlags struct {
	kubeconfig, namespace string
}

func (f *clusterFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.kubeconfig, kubeconfigFlag, "", "`file` with the cluster to ask, or "+kubeclient.InCluster+" for the pod's service account; empty: the agent is asked")
	cmd.Flags().StringVarP(&f.namespace, "namespace", "n", "", "namespace of POD where that does not say it; without it that of the kubeconfig")
}

// prefixed is POD with the namespace that was given, for the agent.
func (f *clusterFlags) prefixed(pod string) string {
	if f.namespace == "" || strings.Contains(pod, "/") {
		return pod
	}
	return f.namespace + "/" + pod
}

// cluster is an API server, and the namespace that is meant where none is said.
type cluster struct {
	kubernetes.Interface
	config    *rest.Config
	namespace string
}

// cluster returns what is to be asked; nil is the node's agent.
func (p *Program) cluster(cmd *cobra.Command, f clusterFlags) (*cluster, error) {
	switch {
	case f.kubeconfig == kubeclient.InCluster:
		config, err := kubeclient.LoadConfig(kubeclient.InCluster)
		if err != nil {
			return nil, err
		}
		return p.newCluster(config, f.namespace)
	case f.kubeconfig == "" && (cmd.Flags().Changed(kubeconfigFlag) || !p.hasKubeconfig()):
		return nil, nil //nolint:nilnil // as said
	}
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = f.kubeconfig
	loaded := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{})
	config, err := loaded.ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("read kubeconfig %q: %w", f.kubeconfig, err)
	}
	namespace, _, err := loaded.Namespace()
	if err != nil {
		return nil, fmt.Errorf("read kubeconfig %q: %w", f.kubeconfig, err)
	}
	if f.namespace != "" {
		namespace = f.namespace
	}
	return p.newCluster(config, namespace)
}

// hasKubeconfig reports whether a cluster is meant that nobody names: that of KUBECONFIG,
// and for a plugin of kubectl that which kubectl itself would ask.
func (p *Program) hasKubeconfig() bool {
	if os.Getenv(clientcmd.RecommendedConfigPathEnvVar) != "" {
		return true
	}
	if !strings.HasPrefix(filepath.Base(p.Name), pluginPrefix) {
		return false
	}
	_, err := os.Stat(clientcmd.RecommendedHomeFile)
	return err == nil
}

func (p *Program) newCluster(config *rest.Config, namespace string) (*cluster, error) {
	client, err := kubeclient.NewClient(config, "mooring/"+p.Build.Version)
	if err != nil {
		return nil, err
	}
	return &cluster{client, config, namespace}, nil
}

// pod splits what names a pod: NAMESPACE/NAME, or NAME.
func (c *cluster) pod(text string) (namespace, name string, err error) {
	namespace, name, said := strings.Cut(text, "/")
	if !said {
		namespace, name = c.namespace, text
	}
	switch {
	case namespace == "" && name != "":
		return "", "", usage("pod %q: want NAMESPACE/NAME, or --namespace", text)
	case name == "" || strings.Contains(name, "/"):
		return "", "", usage("pod %q: want NAMESPACE/NAME or NAME", text)
	}
	return namespace, name, nil
}

// clusterError says what the API server did not do, and which right it takes where that
// is what is missing.
func clusterError(err error, verb, resource, what string) error {
	switch {
	case err == nil:
		return nil
	case apierrors.IsNotFound(err):
		return &admin.NotFoundError{Message: fmt.Sprintf("%s: %v", what, err)}
	case apierrors.IsUnauthorized(err):
		return &forbiddenError{fmt.Errorf("%s: %w", what, err)}
	case apierrors.IsForbidden(err) && mayNot(err, verb):
		return &forbiddenError{fmt.Errorf("%s: %w: it takes a role with the verb %q for %s there", what, err, verb, resource)}
	}
	return fmt.Errorf("%s: %w", what, err)
}

// mayNot tells a right that is missing from a webhook that refuses. A watch is refused with
// no more than that it was.
func mayNot(err error, verb string) bool {
	return verb == "watch" || strings.Contains(err.Error(), "cannot "+verb)
}

// forbiddenError is a right that is missing.
type forbiddenError struct{ err error }

func (e *forbiddenError) Error() string { return e.err.Error() }
func (e *forbiddenError) Unwrap() error { return e.err }

func isForbidden(err error) bool {
	_, ok := errors.AsType[*forbiddenError](err)
	return ok
}
