package cli

import (
	"context"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/mooring-vm/mooring/internal/kubeclient"
	"github.com/mooring-vm/mooring/quota"
	"github.com/mooring-vm/mooring/quota/quotaflags"
)

// quotaOptions are the flags of quota status.
type quotaOptions struct {
	kubeconfig string
	quota      quota.Options
	output     outputFlags
}

func (p *Program) quotaCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "quota",
		Short: "Show the reservations of a namespace for live migrations",
		Long:  "Reads ResourceQuotas from the cluster. Needs no agent, no node and no root.",
		Args:  unknownCommand,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(p.quotaStatusCommand())
	return cmd
}

func (p *Program) quotaStatusCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "status NAMESPACE",
		Short: "Show base, reservations, shares and free amounts",
		Long: "Shows for each ResourceQuota of a namespace its own amounts (base), the\n" +
			"reservations for live migrations, the enforced limit (hard), the charge (used),\n" +
			"and the amount free for pods other than migration targets. Then shows the\n" +
			"migrations and KubeVirt's settings for parallel migrations and timeouts.\n\n" +
			"Reads from the API server and writes nothing. Requires a role with the verb\n" +
			"\"list\" for pods, resourcequotas, migrationreservations and\n" +
			"virtualmachineinstancemigrations, and \"get\" for the namespace. KubeVirt's\n" +
			"settings require \"list\" for kubevirts in the whole cluster; without it they\n" +
			"are left out. Use the same annotation flags as the controller. -o wide adds the\n" +
			"limit that the quota is to have, and whether it is in force.\n\n" +
			"Exit code 4: the namespace does not exist.",
		Example: "  " + p.displayName() + " quota status vms\n  " + p.displayName() +
			" quota status vms -o json --kubeconfig admin.conf",
		Args: between(1, 1, "NAMESPACE"),
	}
	var o quotaOptions
	o.output.add(cmd, formatTable, formatWide)
	o.addFlags(cmd)
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, typed string) (
		[]string, cobra.ShellCompDirective,
	) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return p.completeNamespaces(&viewFlags{clusterFlags: clusterFlags{
			kubeconfig: o.kubeconfig}})(cmd, args, typed)
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return p.quotaStatus(cmd, o, args[0])
	}
	return cmd
}

// addFlags adds the flags, including mooring-controller's flags about annotations.
func (o *quotaOptions) addFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&o.kubeconfig, kubeconfigFlag, "",
		"`file` of the cluster, or "+kubeclient.InCluster+" for the pod's service account "+
			"(default: KUBECONFIG, or kubectl's)")
	quotaflags.Add(flags, &o.quota)
}

// check returns the first invalid flag, by the same rules as the controller.
func (o quotaOptions) check(namespace string) error {
	if problems := validation.IsDNS1123Label(namespace); len(problems) > 0 {
		return usage("namespace %q: want a namespace name: %s", namespace, problems[0])
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
	c, err := p.requireCluster(cmd, o.kubeconfig)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), clusterTimeout)
	defer cancel()
	r := quotaReader{client: c, namespace: namespace}
	end := p.reading(c, "the quotas of namespace "+namespace)
	err = r.read(ctx)
	end()
	if err != nil {
		return err
	}
	r.snapshot.Now = p.Now()
	status := newQuotaStatus(r, o.quota)
	if o.output.isData() {
		return o.output.writeData(p.Out, status, status.names())
	}
	return p.writeQuotaStatus(status, &o.output)
}
