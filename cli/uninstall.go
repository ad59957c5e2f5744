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
	// uninstallTimeout bounds what is done in a cluster of any size.
	uninstallTimeout = 4 * time.Minute

	// stopPatience is how long a controller may take to end: as long as its pods may.
	stopPatience = 40 * time.Second
)

// uninstallOptions is the command line of uninstall.
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
		Short: "Take away what Mooring leaves in a cluster, or on this node",
		Long: "Takes away what would hold somebody up when Mooring is gone, and says what it did.\n\n" +
			"In a cluster: the webhooks and what puts the policies for pods and quotas into force;\n" +
			"ResourceQuotas get their base back; reservations of migrations go, with their finalizer;\n" +
			"so do annotations of namespaces that the controller has computed. A controller that is at\n" +
			"work would undo it: it is stopped first with --force, and otherwise nothing is done. Nor is\n" +
			"anything where a quota's base cannot be read, or a controller stays at work. The rest is whose who\n" +
			"installed it: helm uninstall (which runs this by itself), or kubectl delete.\n\n" +
			"On a node, as root: the units of agent and fence, what is pinned below /sys/fs/bpf, the tmpfs\n" +
			"at /run/mooring, and the program for launchers. Launchers that run keep their limits. The\n" +
			"policy, the setting for containerd and the programs are left.\n\n" +
			"Run it again if it fails: what is done stays done.",
		Example: fmt.Sprintf("  %[1]s uninstall --dry-run\n  %[1]s uninstall --force --kubeconfig admin.conf\n  %[1]s uninstall --node", p.displayName()),
		Args:    between(0, 0, "none"),
	}
	var o uninstallOptions
	o.addFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return p.uninstall(cmd, o) }
	return cmd
}

func (o *uninstallOptions) addFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.BoolVar(&o.node, "node", false, "take away what is on this node, and nothing in a cluster")
	flags.BoolVar(&o.dryRun, "dry-run", false, "say what would be done, and do nothing")
	flags.BoolVar(&o.force, "force", false, "stop a controller that is at work; with --node: also while an agent runs")
	flags.StringVar(&o.kubeconfig, kubeconfigFlag, "",
		"`file` with the cluster, or "+kubeclient.InCluster+" for the pod's service account; without it KUBECONFIG, or kubectl's")
	flags.StringVarP(&o.namespace, "namespace", "n", uninstall.DefaultNamespace, "namespace of the controller")
	flags.StringVar(&o.host, "host", "/", "with --node: where the node's file system is mounted")
	flags.BoolVar(&o.stay, "stay", false, "with --node: end on SIGTERM, and not before, as pods of a DaemonSet have to")
	quotaflags.Add(flags, &o.quota)
}

// check returns what is wrong with a command line.
func (o uninstallOptions) check(given func(string) bool) error {
	var alien []string
	if o.node {
		alien = []string{kubeconfigFlag, "namespace", "annotation-prefix", "manager-annotation", "manager-label"}
	} else {
		alien = []string{"host", "stay"}
	}
	for _, flag := range alien {
		if given(flag) {
			return usage("--%s: want it in a cluster alone, and --host and --stay with --node alone", flag)
		}
	}
	if problems := validation.IsDNS1123Label(o.namespace); len(problems) > 0 {
		return usage("--namespace %q: want the name of one: %s", o.namespace, problems[0])
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
	report := uninstall.Report{DryRun: o.dryRun, Tell: func(line string) {
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
		fmt.Fprintln(p.Out, "nothing is left to take away")
	}
	if o.stay {
		<-cmd.Context().Done()
	}
	return nil
}

func (p *Program) uninstallCluster(ctx context.Context, cmd *cobra.Command, o uninstallOptions, report uninstall.Report) error {
	named, err := p.quotaCluster(cmd, o.kubeconfig)
	if err != nil {
		return err
	}
	client, err := uninstall.NewClient(named.config)
	if err != nil {
		return fmt.Errorf("make a client: %w", err)
	}
	c := uninstall.Cluster{
		Client: client, Namespace: o.namespace, Quota: o.quota,
		Force: o.force, Patience: stopPatience, Now: p.Now, Report: report,
	}
	return c.Run(ctx)
}

func (p *Program) uninstallNode(ctx context.Context, _ *cobra.Command, o uninstallOptions, report uninstall.Report) error {
	n := uninstall.DefaultNode()
	n.Host, n.Force, n.Report = o.host, o.force, report
	return n.Run(ctx)
}
