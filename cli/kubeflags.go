package cli

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/cli-runtime/pkg/genericclioptions"

	"github.com/mooring-vm/mooring/internal/kubeclient"
)

// newKubeFlags returns kubectl's flags for the connection to a cluster. Commands add kubeconfig and
// namespace themselves.
func newKubeFlags() *genericclioptions.ConfigFlags {
	empty := func() *string { return new(string) }
	return &genericclioptions.ConfigFlags{
		Context: empty(), ClusterName: empty(), AuthInfoName: empty(), Timeout: empty(),
		APIServer: empty(), TLSServerName: empty(), Insecure: new(bool), CAFile: empty(),
		CertFile: empty(), KeyFile: empty(), BearerToken: empty(),
		Impersonate: empty(), ImpersonateUID: empty(), ImpersonateGroup: &[]string{},
		ImpersonateUserExtra: &[]string{},
	}
}

// kubeFlagNames are the flags of newKubeFlags.
func kubeFlagNames() (names []string) {
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	newKubeFlags().AddFlags(flags)
	flags.VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	return names
}

// viewFlags select the agent or a cluster, and the launchers of namespaces.
type viewFlags struct {
	clusterFlags
	all  bool
	node string
}

// addCluster adds the flags of a command about all namespaces.
func (f *viewFlags) addCluster(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.kubeconfig, kubeconfigFlag, "",
		"`file` of the cluster, or "+kubeclient.InCluster+" for the pod's service account")
}

// addViewFlags adds the flags of a command that lists launchers.
func (p *Program) addViewFlags(cmd *cobra.Command, f *viewFlags) {
	f.addCluster(cmd)
	cmd.Flags().StringVarP(&f.namespace, "namespace", "n", "",
		"`namespace` of the launchers (default in a cluster: that of the kubeconfig)")
	cmd.Flags().BoolVarP(&f.all, "all-namespaces", "A", false,
		"launchers of all namespaces (default without a cluster)")
	completeFlag(cmd, "namespace", p.completeNamespaces(f))
}

// addNodeFlag adds the flag for the launchers of one node.
func (p *Program) addNodeFlag(cmd *cobra.Command, f *viewFlags) {
	cmd.Flags().StringVar(&f.node, "node", "", "launchers of this `node` of the cluster")
	completeFlag(cmd, "node", p.completeNodes(f))
}

// viewCluster returns the cluster for a command that lists; nil means the agent.
func (p *Program) viewCluster(cmd *cobra.Command, f viewFlags) (*cluster, error) {
	return p.selectCluster(cmd, f.clusterFlags)
}

// selectsCluster reports whether a flag of kubectl other than --kubeconfig is given.
func selectsCluster(cmd *cobra.Command) bool {
	return slices.ContainsFunc(kubeFlagNames(), cmd.Flags().Changed)
}

func (p *Program) isPlugin() bool {
	return strings.HasPrefix(filepath.Base(p.Name), pluginPrefix)
}

func (p *Program) hasSocket() bool {
	_, err := os.Stat(p.socket)
	return err == nil
}

// namespaceOf returns the namespace of the view; empty means all.
func (f viewFlags) namespaceOf(c *cluster) string {
	switch {
	case f.all:
		return ""
	case c != nil:
		return c.namespace
	}
	return f.namespace
}
