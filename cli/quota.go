package cli

import (
	"context"
	"os"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/mooring-vm/mooring/internal/kubeclient"
	"github.com/mooring-vm/mooring/quota"
	"github.com/mooring-vm/mooring/quota/quotaflags"
)

// quotaOptions is the command line of quota status.
type quotaOptions struct {
	kubeconfig string
	quota      quota.Options
	output     *format
}

func (p *Program) quotaCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "quota",
		Short: "Show what the quotas of a namespace hold for live migrations",
		Long:  "Looks at ResourceQuotas in the cluster. Needs no agent, no node and no root.",
		Args:  unknownCommand,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(p.quotaStatusCommand())
	return cmd
}

func (p *Program) quotaStatusCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "status NAMESPACE",
		Short: "Show base, reservations, shares and what is free",
		Long: "Shows of each ResourceQuota of a namespace what it allows by itself (base), what is\n" +
			"reserved in it for live migrations, what Kubernetes holds pods to (hard) and has charged\n" +
			"(used), and what is free for other pods than those of migrations; then the migrations, and\n" +
			"those settings of KubeVirt that say how many there are at once and for how long.\n\n" +
			"All is read from the API server now, and nothing is written. It takes a role with the verb\n" +
			"\"list\" for pods, resourcequotas, migrationreservations and virtualmachineinstancemigrations,\n" +
			"and \"get\" for the namespace. KubeVirt's settings take \"list\" for kubevirts in the whole\n" +
			"cluster; who lacks that sees the rest. Annotations are read as a controller with the same\n" +
			"flags reads them.\n\n" +
			"Exit code 4: there is no such namespace.",
		Example: "  " + p.displayName() + " quota status vms\n  " + p.displayName() + " quota status vms -o json --kubeconfig admin.conf",
		Args:    between(1, 1, "NAMESPACE"),
	}
	var o quotaOptions
	o.output = formatFlag(cmd, formatTable, formatJSON)
	o.addFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return p.quotaStatus(cmd, o, args[0]) }
	return cmd
}

// addFlags adds those of mooring-controller, as far as they say how annotations are read.
func (o *quotaOptions) addFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&o.kubeconfig, kubeconfigFlag, "",
		"`file` with the cluster to ask, or "+kubeclient.InCluster+" for the pod's service account; without it KUBECONFIG, or kubectl's")
	quotaflags.Add(flags, &o.quota)
}

// check returns what is wrong with a command line. It allows what the controller does.
func (o quotaOptions) check(namespace string) error {
	if problems := validation.IsDNS1123Label(namespace); len(problems) > 0 {
		return usage("namespace %q: want the name of one: %s", namespace, problems[0])
	}
	if err := quotaflags.Check(o.quota); err != nil {
		return usage("%w", err)
	}
	return nil
}

func (p *Program) quotaStatus(cmd *cobra.Command, o quotaOptions, namespace string) error {
	if err := o.check(namespace); err != nil {
		return err
	}
	c, err := p.quotaCluster(cmd, o.kubeconfig)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), clusterTimeout)
	defer cancel()
	r := quotaReader{client: c, namespace: namespace}
	if err := r.read(ctx); err != nil {
		return err
	}
	r.snapshot.Now = p.Now()
	status := newQuotaStatus(r, o.quota)
	if *o.output == formatJSON {
		return writeJSON(p.Out, status)
	}
	return p.writeQuotaStatus(status)
}

// quotaCluster is the cluster that is meant. No agent can be, so without a name it is
// kubectl's, however the program was called.
func (p *Program) quotaCluster(cmd *cobra.Command, kubeconfig string) (*cluster, error) {
	if !cmd.Flags().Changed(kubeconfigFlag) && os.Getenv(clientcmd.RecommendedConfigPathEnvVar) == "" {
		if _, err := os.Stat(clientcmd.RecommendedHomeFile); err == nil {
			kubeconfig = clientcmd.RecommendedHomeFile
		}
	}
	c, err := p.cluster(cmd, clusterFlags{kubeconfig: kubeconfig})
	if err == nil && c == nil {
		return nil, usage("no cluster is named: want --%s FILE, or KUBECONFIG", kubeconfigFlag)
	}
	return c, err
}
