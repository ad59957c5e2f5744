package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/mooring-vm/mooring/cli/uninstall"
	"github.com/mooring-vm/mooring/internal/kubeclient"
	"github.com/mooring-vm/mooring/quota"
	"github.com/mooring-vm/mooring/quota/quotaflags"
)

const (
	// uninstallTimeout bounds an uninstall from a cluster of any size.
	uninstallTimeout = 4 * time.Minute

	// controllerStopTimeout bounds the end of the controller's pods.
	controllerStopTimeout = 40 * time.Second
)

// uninstallOptions are the flags of uninstall.
type uninstallOptions struct {
	kubeconfig, namespace string
	quota                 quota.Options
	node                  bool
	host                  string
	stay                  bool
	force, dryRun         bool
}

func (p *Program) uninstallCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "uninstall [--node]",
		Short: "Remove Mooring's changes from a cluster or from this node",
		Long: "Removes the parts that would block users after Mooring is gone, and lists its\n" +
			"actions.\n\n" +
			"In a cluster: removes the webhooks and the bindings of the admission policies\n" +
			"for pods and quotas, resets ResourceQuotas to their base, and deletes\n" +
			"reservations with their finalizers and the namespace annotations computed by\n" +
			"the controller. It removes the finalizer of fencing from all pods. A running\n" +
			"controller would revert this: --force stops it, and without --force the command\n" +
			"does nothing. The command also does nothing if a quota's base is unreadable or a\n" +
			"controller keeps running. Other objects belong to the installer and stay: use\n" +
			"helm uninstall (which runs this command itself) or kubectl delete.\n\n" +
			"On a node, as root: removes the units of agent and fence, the pins below\n" +
			"/sys/fs/bpf, the tmpfs at /run/mooring, and the program for launchers. Running\n" +
			"launchers keep their limits. Policy, containerd's configuration and the\n" +
			"programs stay.\n\n" +
			"Run it again after a failure: completed steps stay completed.",
		Example: fmt.Sprintf("  %[1]s uninstall --dry-run\n  %[1]s uninstall --force "+
			"--kubeconfig admin.conf\n  %[1]s uninstall --node", p.displayName()),
		Args: between(0, 0, "none"),
	}
	var o uninstallOptions
	o.addFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return p.uninstall(cmd, o) }
	return cmd
}

func (o *uninstallOptions) addFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.BoolVar(&o.node, "node", false, "remove from this node instead of a cluster")
	flags.BoolVar(&o.dryRun, "dry-run", false, "list the actions without executing them")
	flags.BoolVar(&o.force, "force", false, "stop a running controller; with --node: also while "+
		"an agent runs")
	flags.StringVar(&o.kubeconfig, kubeconfigFlag, "",
		"`file` of the cluster, or "+kubeclient.InCluster+" for the pod's service account "+
			"(default: KUBECONFIG, or kubectl's)")
	flags.StringVarP(&o.namespace, "namespace", "n", uninstall.DefaultNamespace,
		"namespace of the controller")
	flags.StringVar(&o.host, "host", "/", "with --node: mount point of the node's root file system")
	flags.BoolVar(&o.stay, "stay", false, "with --node: end only on SIGTERM, for pods of a "+
		"DaemonSet")
	quotaflags.Add(flags, &o.quota)
}

// check returns the first invalid flag.
func (o uninstallOptions) check(given func(string) bool) error {
	var alien []string
	if o.node {
		alien = []string{kubeconfigFlag, "namespace", "annotation-prefix", "manager-annotation",
			"manager-label"}
	} else {
		alien = []string{"host", "stay"}
	}
	for _, flag := range alien {
		if given(flag) {
			return usage("--%s: want it in a cluster alone, and --host and --stay with "+
				"--node alone", flag)
		}
	}
	if problems := validation.IsDNS1123Label(o.namespace); len(problems) > 0 {
		return usage("--namespace %q: want a namespace name: %s", o.namespace, problems[0])
	}
	if err := quotaflags.Check(o.quota); err != nil {
		return usage("%w", err)
	}
	return nil
}

func (p *Program) uninstall(cmd *cobra.Command, o uninstallOptions) error {
	if err := o.check(cmd.Flags().Changed); err != nil {
		return err
	}
	told := false
	report := uninstall.Report{DryRun: o.dryRun, Print: func(line string) {
		told = true
		fmt.Fprintln(p.Out, oneLine(line))
	}}
	ctx, cancel := context.WithTimeout(cmd.Context(), uninstallTimeout)
	defer cancel()
	run := p.uninstallCluster
	if o.node {
		run = p.uninstallNode
	}
	if err := run(ctx, cmd, o, report); err != nil {
		return err
	}
	if !told {
		fmt.Fprintln(p.Out, "nothing to remove")
	}
	if o.stay {
		<-cmd.Context().Done()
	}
	return nil
}

func (p *Program) uninstallCluster(
	ctx context.Context, cmd *cobra.Command, o uninstallOptions, report uninstall.Report,
) error {
	named, err := p.requireCluster(cmd, o.kubeconfig)
	if err != nil {
		return err
	}
	client, err := uninstall.NewClient(named.config)
	if err != nil {
		return fmt.Errorf("make a client: %w", err)
	}
	c := uninstall.Cluster{
		Client: client, Namespace: o.namespace, Quota: o.quota,
		Force: o.force, Patience: controllerStopTimeout, Now: p.Now, Report: report,
	}
	return c.Run(ctx)
}

func (p *Program) uninstallNode(
	ctx context.Context, _ *cobra.Command, o uninstallOptions, report uninstall.Report,
) error {
	n := uninstall.DefaultNode()
	n.Host, n.Force, n.Report = o.host, o.force, report
	return n.Run(ctx)
}
