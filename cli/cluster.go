package cli

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/mooring-vm/mooring/agent/admin"
	"github.com/mooring-vm/mooring/internal/kubeclient"
	"github.com/mooring-vm/mooring/internal/kubeclient/clientset"
)

// clusterTimeout bounds a request to the API server.
const clusterTimeout = 30 * time.Second

const kubeconfigFlag = "kubeconfig"

// clusterFlags select an API server, or none.
type clusterFlags struct {
	kubeconfig, namespace string

	// environmentFirst makes KUBECONFIG take precedence over an agent on this machine.
	environmentFirst bool
}

// add adds the flags of a command that prefers a cluster.
func (f *clusterFlags) add(cmd *cobra.Command) {
	f.environmentFirst = true
	cmd.Flags().StringVar(&f.kubeconfig, kubeconfigFlag, "",
		"`file` of the cluster, or "+kubeclient.InCluster+" for the pod's service account; "+
			"empty: ask the agent")
	cmd.Flags().StringVarP(&f.namespace, "namespace", "n", "", "namespace of POD (default: that "+
		"of the kubeconfig)")
}

// prefixed returns POD with the namespace of the flag, for the agent.
func (f *clusterFlags) prefixed(pod string) string {
	if f.namespace == "" || strings.Contains(pod, "/") {
		return pod
	}
	return f.namespace + "/" + pod
}

// cluster is an API server with a default namespace.
type cluster struct {
	kubernetes.Interface
	config    *rest.Config
	namespace string
}

// selectCluster returns the cluster for a command that can ask the node's agent as well; nil means
// the agent. Flags decide first. A kubectl plugin prefers the cluster, and other names prefer an
// agent on this machine.
func (p *Program) selectCluster(cmd *cobra.Command, f clusterFlags) (*cluster, error) {
	given := cmd.Flags().Changed
	switch {
	case f.kubeconfig != "", selectsCluster(cmd):
	case given("socket"), given(kubeconfigFlag):
		return nil, nil //nolint:nilnil // nil means the agent
	case f.environmentFirst && os.Getenv(clientcmd.RecommendedConfigPathEnvVar) != "":
	case !p.isPlugin() && p.hasSocket(), !hasKubeconfig():
		return nil, nil //nolint:nilnil // nil means the agent
	}
	return p.connect(f)
}

// requireCluster returns the cluster for a command without an agent.
func (p *Program) requireCluster(cmd *cobra.Command, kubeconfig string) (*cluster, error) {
	if kubeconfig == "" && !selectsCluster(cmd) &&
		(cmd.Flags().Changed(kubeconfigFlag) || !hasKubeconfig()) {
		return nil, usage("no cluster: want --%s FILE, or KUBECONFIG", kubeconfigFlag)
	}
	return p.connect(clusterFlags{kubeconfig: kubeconfig})
}

// connect returns the cluster of the flags, of KUBECONFIG or of kubectl's own kubeconfig.
func (p *Program) connect(f clusterFlags) (*cluster, error) {
	if f.kubeconfig == kubeclient.InCluster {
		config, err := kubeclient.LoadConfig(kubeclient.InCluster)
		if err != nil {
			return nil, err
		}
		return p.newCluster(config, f.namespace)
	}
	p.kube.KubeConfig, p.kube.Namespace = &f.kubeconfig, &f.namespace
	config, err := p.kube.ToRESTConfig()
	if err != nil {
		return nil, fmt.Errorf("read kubeconfig %q: %w", f.kubeconfig, err)
	}
	namespace, _, err := p.kube.ToRawKubeConfigLoader().Namespace()
	if err != nil {
		return nil, fmt.Errorf("read kubeconfig %q: %w", f.kubeconfig, err)
	}
	return p.newCluster(config, namespace)
}

// hasKubeconfig reports whether KUBECONFIG or kubectl's own kubeconfig exists.
func hasKubeconfig() bool {
	if os.Getenv(clientcmd.RecommendedConfigPathEnvVar) != "" {
		return true
	}
	_, err := os.Stat(clientcmd.RecommendedHomeFile)
	return err == nil
}

func (p *Program) newCluster(config *rest.Config, namespace string) (*cluster, error) {
	client, err := clientset.New(config, "mooring/"+p.Build.Version)
	if err != nil {
		return nil, err
	}
	return &cluster{client, config, namespace}, nil
}

// pod splits NAMESPACE/NAME, or NAME in the default namespace.
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

// clusterError describes a failed request, with the missing right if RBAC denied it.
func clusterError(err error, verb, resource, what string) error {
	switch {
	case err == nil:
		return nil
	case apierrors.IsNotFound(err):
		return &admin.NotFoundError{Message: fmt.Sprintf("%s: %v", what, err)}
	case apierrors.IsUnauthorized(err):
		return &forbiddenError{fmt.Errorf("%s: %w", what, err)}
	case apierrors.IsForbidden(err) && isRBACError(err, verb):
		return &forbiddenError{fmt.Errorf("%s: %w: requires a role with the verb %q for %s", what,
			err, verb, resource)}
	}
	return fmt.Errorf("%s: %w", what, err)
}

// isRBACError reports whether a right is missing, as opposed to a refusal by a webhook. The error
// of a denied watch does not name the right.
func isRBACError(err error, verb string) bool {
	return verb == "watch" || strings.Contains(err.Error(), "cannot "+verb)
}

// forbiddenError reports a missing right.
type forbiddenError struct{ err error }

func (e *forbiddenError) Error() string { return e.err.Error() }
func (e *forbiddenError) Unwrap() error { return e.err }

func isForbidden(err error) bool {
	_, ok := errors.AsType[*forbiddenError](err)
	return ok
}
